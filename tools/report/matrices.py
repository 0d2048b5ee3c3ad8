"""What the matrices look like: where their entries lie, and how long their rows are. The program is asked for both."""

import json
import math
import os
import pathlib
import subprocess
import tempfile

from tables import ROOT

from .words import Cell, Figure, Section, Table, cell, count, digits, label, name, percent, whole

LIMIT = 120  # seconds for one matrix
UNASKED = 2_000_000  # non-zeros of matrices, together, that are drawn though nobody asked: some seconds


def described(files, program, warn):
    """A section of the matrices in the files. `program` is asked for each; of one that it cannot read, `warn` is told why. Where none is
    named, that of this checkout is asked, if there is one, of matrices that are small."""
    figures, facts, room = [], [], math.inf if program else UNASKED
    asked = program or ROOT / (os.environ.get("STAGES_BUILD") or "build") / "cpu/bin/stages"
    if not program and not asked.is_file():
        return []
    for matrix, nnz in {r.problem.matrix: r.problem.nnz for file in files for r in file.rows}.items():
        if nnz > room:
            continue
        room -= nnz
        try:
            info = ask(str(asked), matrix)
        except (CannotTell, OSError) as error:
            if program:
                warn(f"no picture of {matrix}: {error}")
            continue
        figures.append(figure(matrix, info))
        facts.append(row_of(matrix, info))
    if not figures:
        return []
    heads = ["matrix*", "rows", "columns", "non-zeros", "mean row", "longest row", "empty rows", "Gini", "symmetry", "products of its square", "compression"]
    return [Section("matrices", "The matrices",
                    "Where the entries lie, and the row lengths beside them: the long ones are hub rows, which stall a thread per row.", figures, "matrix", Table(heads, facts))]


class CannotTell(Exception):
    pass


def ask(program, matrix):
    """What `stages info` says of a matrix, and under "picture" the SVG that it draws."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "picture.svg"
            info = json.loads(output_of([program, "info", "--json", "--picture", str(path), "--", matrix]))
            return info | {"picture": path.read_text(encoding="utf-8")}
    except (KeyError, TypeError, ValueError) as error:  # JSONDecodeError is a ValueError
        raise CannotTell(f"{program} said what this report does not understand ({error})") from None


def output_of(words):
    """What a command prints on stdout."""
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    except OSError as error:
        raise CannotTell(f"{words[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise CannotTell(f"it takes more than {LIMIT} s to look at") from None
    except subprocess.CalledProcessError as ended:
        raise CannotTell((ended.stderr.strip().splitlines() or [f"{words[0]} ended with exit code {ended.returncode}"])[-1]) from None


def row_of(matrix, info):
    rows, square = info["row_length"], info["square"]
    return [name(label(matrix)), whole(info["rows"]), whole(info["cols"]), whole(info["nnz"]),
            cell(rows["mean"], digits), whole(rows["max"]), whole(info["empty_rows"]), cell(rows["gini"], digits),
            cell(info["structural_symmetry"], percent), cell(square["products"], count), cell(square["compression"], digits)]


def figure(matrix, info):
    classes = info["row_length_histogram"]
    names = [str(c["from"]) if c["from"] == c["to"] else f"{short_count(c['from'])}–{short_count(c['to'])}" for c in classes]
    rows = max(info["rows"], 1)
    length = info["row_length"]
    see = (f"Rows have {digits(length['mean'])} non-zeros on average and at most {length['max']:,}"
           + (f", {digits(length['max'] / length['mean'])} times as many" if length["max"] > 2 * length["mean"] > 0 else "")
           + (f"; {percent(info['empty_rows'] / rows)} of the rows are empty" if info["empty_rows"] else "") + ".")
    table = Table(["non-zeros in a row", "rows", "share of the rows"],
                  [[Cell(text, c["from"]), whole(c["rows"]), cell(c["rows"] / rows, percent)] for text, c in zip(names, classes)])
    note = f"{info['rows']:,} x {info['cols']:,}, {info['nnz']:,} non-zeros"
    return Figure(label(matrix), see, info["picture"], table, [note])


def short_count(value):
    """1023 as 1.02k: for labels."""
    unit, size = next(((unit, size) for unit, size in (("M", 1e6), ("k", 1e3)) if value >= size), ("", 1))
    return f"{value / size:.3g}{unit}"
