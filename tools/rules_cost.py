"""The work of tools/rules-cost.sh, which says how it is used: runs spgemm_forms or spmm_study on each matrix, and writes down all times."""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = {"spgemm": "as it is", "spmm": "the rules' choice"}
LINE = re.compile(r"^(\S.{0,41}?) +([0-9]+\.[0-9]{3}) +[0-9.]+ +[0-9.]+x \|")


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
    if matrix.startswith("gen:"):
        return matrix, ""
    if matrix.startswith("data:"):
        lines = [line.split("\t") for line in (ROOT / "data/builtin.tsv").read_text().splitlines() if not line.startswith("#")]
        specs = {line[0]: line[1:3] for line in lines}.get(matrix.removeprefix("data:"), ("", ""))
        return (specs[0], "") if specs[1] == "-" else (None, "a pair" if specs[0] else "there is no such matrix")
    file = files / matrix if files else None
    return (str(file.resolve()), "") if file and file.exists() else (None, "its file is not there")


def times_of(operation, place, build, limit):
    """{choice: seconds}, and why there are none. SpMM's at N = 32."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "times.json"
        command = {"spgemm": [build / "bin/spgemm_forms", "--samples", "5", "--filter", "^(?!one form after)", place],
                   "spmm": [build / "bin/spmm_study", "--twin", "none", "-m", place, "--n-cols", "32", "--json", out]}[operation]
        try:
            done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {}, f"more than {limit:g} s"
        except OSError as error:
            wrong_use(f"{command[0]}: {error.strerror}; build it (tools/build.sh gpu) or name another build (--build)")
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]
            return {}, f"exit code {done.returncode}: {said}"
        if operation == "spmm":
            times = {t["variant"]: t["seconds"] for t in json.loads(out.read_text())["times"]}
        else:
            times = {m[1]: float(m[2]) * 1e-3 for m in map(LINE.match, done.stdout.splitlines()) if m}
        times = {choice: seconds for choice, seconds in times.items() if seconds > 0}
        return (times, "") if RULES[operation] in times else ({}, "no time by the rules")


def output(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def main():
    parser = argparse.ArgumentParser(prog="tools/rules-cost.sh")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu")
    parser.add_argument("--files", type=pathlib.Path)
    parser.add_argument("--limit", type=float, default=20)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("lists", nargs="*", type=pathlib.Path, metavar="LIST")
    options = parser.parse_args()
    lists = options.lists or sorted((ROOT / "tools/sets").glob("sp*-*.txt"))
    try:
        gpu = output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).stdout.splitlines()[0].strip()
    except (OSError, IndexError):
        wrong_use("nvidia-smi finds no GPU: times of the executor say nothing")
    digest = output(["cmake", f"-DROOT={ROOT}", "-P", "cmake/BuildInfo.cmake"])
    out = options.out or ROOT / "results" / re.sub("[A-Z ]", lambda c: "-" if c[0] == " " else c[0].lower(), gpu) / "rules_cost.json"
    record = {"schema_version": 1, "gpu": gpu, "date": datetime.date.today().isoformat(),
              "source_digest": (digest.stdout + digest.stderr).strip(), "matrices": []}
    for path in lists:
        operation, kind, matrices = read_list(path)
        for matrix in matrices:
            place, reason = place_of(matrix, options.files)
            times, reason = times_of(operation, place, options.build.resolve(), options.limit) if place else ({}, reason)
            print(f"{path.name} {matrix}: {reason or f'{len(times)} choices'}", file=sys.stderr)
            record["matrices"].append({"operation": operation, "list": kind, "matrix": matrix, "rules": RULES[operation], "seconds": times, "skipped": reason})
    if not any(m["seconds"] for m in record["matrices"]):
        print("rules-cost: nothing was measured", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
