#!/usr/bin/env python3
"""scipy reads what we write.

usage: scipy_reads.py PROGRAM

PROGRAM is `stages`. Matrices are generated with it, written plain and compressed, and read with scipy.io.mmread:
shape, number of entries and every value must be what a minimal reader of our own (in played.py) finds. And what
scipy writes, the program must read. Exit code 77 (skipped) where there is no scipy.
"""

import pathlib
import subprocess
import sys
import tempfile

from played import entries_of

try:
    import numpy
    import scipy.io
    import scipy.sparse
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SPECS = [
    "gen:uniform:rows=40,cols=70,nnz=300,seed=3",
    "gen:banded:n=50",
    "gen:hypersparse:n=100000,nnz=20",
]


def check_our_file(program, spec, path):
    subprocess.run([program, "generate", spec, "-o", path], check=True, stdout=subprocess.DEVNULL)
    banner, (rows, cols, nnz), entries = entries_of(path)
    assert banner == ["%%MatrixMarket", "matrix", "coordinate", "real", "general"], banner
    read = scipy.sparse.coo_array(scipy.io.mmread(path))
    assert read.shape == (rows, cols), (read.shape, rows, cols)
    assert read.nnz == nnz == len(entries), (read.nnz, nnz, len(entries))
    got = sorted(zip(read.row.tolist(), read.col.tolist(), read.data.tolist()))
    assert got == sorted(entries), f"{spec}: scipy reads other values"
    print(f"ok: {path.name}, {rows} x {cols}, {nnz} entries")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        for number, spec in enumerate(SPECS):
            for suffix in (".mtx", ".mtx.gz"):
                check_our_file(program, spec, directory / f"ours{number}{suffix}")
        square = scipy.sparse.random(30, 30, density=0.2, random_state=1).tocoo()
        for name, matrix, options in (("real", square, {}), ("symmetric", (square + square.T).tocoo(), {}),
                                      ("skew", (square - square.T).tocoo(), {"symmetry": "skew-symmetric"}), ("pattern", square, {"field": "pattern"}),
                                      ("integer", square.astype(numpy.int64), {}), ("array", square.toarray(), {})):
            path = directory / f"{name}.mtx"
            scipy.io.mmwrite(path, matrix, **options)
            subprocess.run([program, "info", path], check=True, stdout=subprocess.DEVNULL)
            print(f"ok: {path.name}, written by scipy")


if __name__ == "__main__":
    main()
