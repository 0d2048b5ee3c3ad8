#!/usr/bin/env python3
"""Times whole programs on the pair of the course project "D1", from two files to the file of C: real, user and sys, as the shell's `time`.

    tools/whole_program.py [--quick] [--ranks 1,2,4,32] [--json FILE]

For each of D1's programs the entry nearest to it, then the best one of today. Each is checked once, then timed RUNS times without the check; the
run in the middle counts. On the executor a matrix of a sixteenth of the rows is multiplied; with --quick everywhere, once, with the check.
`stages` is that on the PATH, or that of build/cpu. Nothing else should run meanwhile. FILE is written as a record for results/.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import record
import tables

RUNS, SIZES = 3, {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ENTRIES = ("01_cpu_serial/two_pointer_dot", "01_cpu_serial/gustavson_adaptive", "02_mpi/scatter_gather", "02_mpi/shared_window",
           "03_cuda_naive/dense_output_strided", "08_spgemm_multigpu/binned")


def run(*words):
    """What a command and all that it starts take, in seconds, and what it says."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    real, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        fail(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr.strip()}", done.returncode)
    return {"real": real, "user": after.ru_utime - before.ru_utime, "sys": after.ru_stime - before.ru_stime}, done.stdout + done.stderr


def fail(why, code=2):
    print(f"whole_program: {why}", file=sys.stderr)
    sys.exit(code)


def measured(stages, place, shrink, quick, entry, ranks):
    """The row of an entry; `ranks` is empty for one that needs none."""
    a, b = (place / f"{name}{shrink}.mtx" for name in "ab")
    for name, path in (("a", a), ("b", b)):
        if not path.exists():
            run(stages, "generate", f"gen:d1:{name},shrink={shrink}", "-o", path)
    words = [stages, "multiply", a, b, "-o", place / "c.mtx", "--type", "f32", "--with", entry, *(["--ranks", ranks] if ranks else [])]
    checked = run(*words)
    took, said = checked if quick else sorted((run(*words, "--no-check") for _ in range(RUNS)), key=lambda of: of[0]["real"])[RUNS // 2]
    rows, nnz, product, unit = re.search(r"(\d+) x \d+, (\d+) non-zeros, by .*(?: in ([\d.]+) (\w+)|, not timed.*), ", said).groups()
    product = product and float(product) * SIZES[unit]  # on the executor: none
    return {"entry": entry, "ranks": int(ranks or 0), "rows": int(rows), "result_nnz": int(nnz), **took, "product": product}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="a small matrix, once")
    parser.add_argument("--ranks", default="1,2,4,32", help="of the entries of step 2 [1,2,4,32]")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write a record")
    options = parser.parse_args()
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.ranks):
        fail(f"--ranks {options.ranks}: give numbers of ranks with commas, as in 1,2,4")
    if options.json and not os.access(options.json.parent, os.W_OK):
        fail(f"--json: {options.json.parent} cannot be written; give a file in a directory that can")
    stages = shutil.which("stages") or shutil.which(tables.ROOT / "build/cpu/bin/stages") or fail("there is no program stages; build it by tools/build.sh cpu stages")
    with tempfile.TemporaryDirectory() as place:
        run(stages, "run", "--quick", "-m", "gen:fem:nx=2", "--op", "spmv", "--stage", "01", "--json", place + "/run.json")
        results = {"context": record.read(place + "/run.json")["context"] | {"command": " ".join(sys.argv), "load": f"{os.getloadavg()[0]:.1f}"}, "programs": []}
        for entry in json.loads(run(stages, "list", "--json")[1])["entries"]:
            for ranks in (options.ranks.split(",") if entry["needs"]["several_ranks"] else [""]) if entry["name"] in ENTRIES else ():
                print(entry["name"], ranks, file=sys.stderr)
                small = options.quick or entry["needs"]["gpu"] and results["context"]["backend"] == "cpu"
                results["programs"].append(measured(stages, pathlib.Path(place), 16 if small else 1, options.quick, entry["name"], ranks))
    print(tables.programs(results, ""), end="")
    if options.json:
        options.json.write_text(record.text_of(record.rounded(results, 4)))


if __name__ == "__main__":
    main()
