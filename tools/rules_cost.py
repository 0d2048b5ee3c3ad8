"""The work of tools/rules-cost.sh, which says how it is used: runs spgemm_forms or spmm_study on each matrix, and writes down all times.

Some of these programs run side by side: each makes its matrix, and then they use the GPU one after the other."""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = {"spgemm": "as it is", "spmm": "the rules' choice"}
PROGRAMS = {"spgemm": "spgemm_forms", "spmm": "spmm_study"}


def wrong_use(text):
    print(f"rules-cost: {text}", file=sys.stderr)
    sys.exit(2)


def read_list(path):
    """Operation, whether rules were fitted on it, and the matrices."""
    named = re.fullmatch(r"(spgemm|spmm)-(fitted|reported)", path.stem)
    if not named:
        wrong_use(f"{path}: the name of a list is spgemm-fitted.txt, spgemm-reported.txt, spmm-fitted.txt or spmm-reported.txt")
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except OSError as error:
        wrong_use(f"{path}: {error.strerror}; give one of tools/sets")
    return named[1], named[2], [line for line in lines if line and not line.startswith("#")]


def place_of(matrix, files):
    """What the programs take for a matrix of a list; None, and why, where there is nothing to take."""
    if matrix.startswith(("gen:", "data:")):
        return matrix, ""
    file = files / matrix if files else None
    return (str(file.resolve()), "") if file and file.exists() else (None, "its file is not there")


class Studies:
    """All matrices, in a time for all of them together: what one does not need of its part is the others'."""

    def __init__(self, options, count, directory):
        self.options, self.left, self.directory = options, count, pathlib.Path(directory)
        self.end = time.monotonic() + options.budget
        self.last = self.end + options.budget / 20  # for the last to write down what it has
        self.lock = threading.Lock()

    def part(self):
        with self.lock:
            return max(0.1, (self.end - time.monotonic()) / self.left)

    def choices(self, operation, place):
        """What the program wrote of its choices, a list; and why there are none."""
        out = self.directory / f"{threading.get_ident()}.json"
        out.unlink(missing_ok=True)
        program = (self.options.build / "bin" / PROGRAMS[operation]).resolve()
        common = ["--budget", f"{self.part():.2f}", "--turns", self.directory / "turns", "--json", out]
        command = {"spgemm": [program, "--samples", "5", "--filter", self.options.filter, *common, place],
                   "spmm": [program, "--twin", "none", "-m", place, "--n-cols", self.options.n_cols, "--filter", self.options.filter, *common]}[operation]
        try:
            done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=max(1, self.last - time.monotonic()))
        except subprocess.TimeoutExpired:
            return [], "not done when the time for all was over"
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]
            return [], f"exit code {done.returncode}: {said.replace(f'{ROOT}/', '')}"  # a record has no place of this machine
        found = [c for c in json.loads(out.read_text())["choices"] if (c["seconds"].get(RULES[operation]) or 0) > 0]
        return found, "" if found else "no time by the rules"

    def of(self, operation, kind, matrix):
        """The lines of the record of one matrix: one; of SpMM one for each number of columns."""
        place, reason = place_of(matrix, self.options.files)
        found, reason = self.choices(operation, place) if place else ([], reason)
        with self.lock:
            self.left -= 1
        said = reason or ", ".join(f"{len(c['seconds'])} choices" + (f" and {c['left_out']} left out" if c["left_out"] else "") for c in found)
        print(f"{operation} {matrix}: {said}", file=sys.stderr)
        line = {"operation": operation, "list": kind, "matrix": matrix, "rules": RULES[operation]}
        return [{**line, **c, "matrix": matrix, "skipped": ""} for c in found] or [{**line, "seconds": {}, "skipped": reason}]


def main():
    parser = argparse.ArgumentParser(prog="tools/rules-cost.sh")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu")
    parser.add_argument("--files", type=pathlib.Path)
    parser.add_argument("--n-cols", default="16,32,128,256")
    parser.add_argument("--filter", default=".")
    parser.add_argument("--budget", type=float, default=360)
    parser.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("lists", nargs="*", type=pathlib.Path, metavar="LIST")
    options = parser.parse_args()
    lists = options.lists or sorted((ROOT / "tools/sets").glob("sp*-*.txt"))
    output = lambda *command: subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        gpu = output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").stdout.splitlines()[0].strip()
    except (OSError, IndexError):
        wrong_use("nvidia-smi finds no GPU: times of the executor say nothing")
    digest = output("cmake", f"-DROOT={ROOT}", "-P", "cmake/BuildInfo.cmake")
    out = options.out or ROOT / "results" / gpu.lower().replace(" ", "-") / "rules_cost.json"
    listed = [(operation, kind, matrix) for operation, kind, matrices in map(read_list, lists) for matrix in matrices]
    wanted = sorted(listed, key=lambda words: words[2].startswith("gen:twin:"))  # the largest last: they take what time the others leave
    for program in {options.build / "bin" / PROGRAMS[operation] for operation, _, _ in wanted}:
        if not program.exists():
            wrong_use(f"there is no {program}; build it (tools/build.sh gpu) or name another build (--build)")
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        studies = Studies(options, len(wanted), directory)
        lines_of = dict(zip(wanted, workers.map(lambda words: studies.of(*words), wanted)))
    lines = [line for words in listed for line in lines_of[words]]
    if not any(m["seconds"] for m in lines):
        print("rules-cost: nothing was measured", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(record.text_of(record.packed({
        "schema_version": 1, "gpu": gpu, "date": datetime.date.today().isoformat(), "source_digest": (digest.stdout + digest.stderr).strip(),
        "matrices": lines})))
    print(f"written: {out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
