#!/usr/bin/env python3
"""Writes data/advice.tsv, by which `stages advise` advises, from the records of one GPU under results/.

  tools/advice.py [--check]

For each operation one entry is advised: of those that were timed on every recorded case, the one with the best geometric mean
of its share of the best entry's speed. --check compares the file with the records instead of writing it.
"""
import argparse
import collections
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPU = "nvidia-h100-80gb-hbm3"
TABLE = ROOT / "data" / "advice.tsv"
# One product on one GPU, and the whole product: no streams and chains, no shares, no entries that know C's structure.
RECORDS = ["spmv.json", "spmv_held_out.json", "ladder_spmm.json", "spmm_held_out.json", "spgemm.json", "spgemm_held_out.json", "ladder_spgemm.json"]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def name_of(matrix):
    """A file's name without its directory, which is that of one machine."""
    return matrix if matrix.startswith(("gen:", "data:")) else matrix.rsplit("/", 1)[-1]


def read_cases(files):
    """(operation, options, matrix) -> its facts, and entry -> seconds of a product: the fastest record of it."""
    facts, seconds = {}, collections.defaultdict(dict)
    for file in files:
        for row in json.loads(file.read_text())["results"]:
            problem = row["problem"]
            if row["status"] != "good" or "seconds" not in row or row["peer"] or row["structure_reuse"] or row["mpi"]:
                continue
            case = (problem["operation"], problem["options"] or "-", name_of(problem["matrix"]))
            facts[case] = problem
            time = row["seconds"]["run"]["median"]
            seconds[case][row["entry"]] = min(time, seconds[case].get(row["entry"], time))
    return facts, seconds


def shares_of(seconds):
    """case -> entry -> its share of the speed of the case's best entry."""
    return {case: {entry: min(times.values()) / time for entry, time in times.items()} for case, times in seconds.items()}


def chosen(shares):
    """Of the entries that all these cases have, the best in geometric mean."""
    common = set.intersection(*(set(of) for of in shares))
    return max(sorted(common), key=lambda entry: geometric_mean(of[entry] for of in shares))


def table(facts, shares):
    lines = ["# What `stages advise` knows, of records of one NVIDIA H100 in single precision. A line a case: operation, options, matrix, rows,",
             "# non-zeros, the entry that is advised, its share of the best entry's speed, the same for the entry that would be advised",
             "# without this case, the best entry. tools/advice.py writes this file."]
    for operation in ("spmv", "spmm", "spgemm"):
        cases = sorted(case for case in shares if case[0] == operation)
        entry = chosen([shares[case] for case in cases])
        for case in cases:
            of, problem = shares[case], facts[case]
            without = of[chosen([shares[other] for other in cases if other[2] != case[2]])]
            lines.append("\t".join([*case, str(problem["rows"]), str(problem["nnz"]), entry, f"{of[entry]:.4f}", f"{without:.4f}",
                                    max(sorted(of), key=of.get)]))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    facts, seconds = read_cases(sorted(file for name in RECORDS for file in (ROOT / "results" / GPU).glob(name)))
    text = table(facts, shares_of(seconds))
    if not check:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit("data/advice.tsv is not what the records say; run tools/advice.py")


if __name__ == "__main__":
    main()
