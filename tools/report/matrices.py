"""What the matrices look like: where their entries lie, and how long their rows are. The program is asked for both."""

import gzip
import json
import math
import pathlib
import subprocess
import tempfile

import numpy

from . import pictures as draw
from .words import Cell, Figure, Section, Table, cell, count, digits, label, name, percent, whole

GRID = 128  # cells of the picture of a matrix along its longer side
LIMIT = 120  # seconds for one matrix


def described(files, program, warn):
    """A section of the matrices in the files. `program` is asked for each; of one that it cannot read, `warn` is told why."""
    figures, facts = [], []
    for matrix in dict.fromkeys(r.problem.matrix for file in files for r in file.rows):
        try:
            info = ask(program, matrix)
        except (CannotTell, OSError) as error:
            warn(f"no picture of {matrix}: {error}")
            continue
        figures.append(figure(matrix, info))
        facts.append(row_of(matrix, info))
    if not figures:
        return []
    heads = ["matrix*", "rows", "columns", "non-zeros", "mean row", "longest row", "empty rows", "Gini", "symmetry", "products of its square", "compression"]
    return [Section("matrices", "The matrices",
                    "Left, where the entries lie: the darker, the more of them. Right, how many rows have how many non-zeros, on a logarithmic axis: "
                    "bars far to the right are the hub rows that stall a thread per row.", figures, "matrix", Table(heads, facts))]


class CannotTell(Exception):
    pass


def ask(program, matrix):
    """What `stages info` says of a matrix, and under "picture" how many entries lie in each cell of a grid."""
    try:
        info = json.loads(output_of([program, "info", "--json", "--", matrix]))
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(matrix)
            if matrix.startswith(("gen:", "data:")):
                path = pathlib.Path(directory) / "matrix.mtx"
                output_of([program, "generate", "-o", str(path), "--", matrix])
            info["picture"] = gridded(path, info)
        return info
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


def gridded(path, info):
    """Entries in each cell of a grid of at most GRID cells a side, row by row. The file is one that the program has read, so
    only its layout is looked at: what stands in a line, and whether the other half is left out (symmetric)."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        words = file.readline().lower().split()
        if len(words) < 5 or words[2] != "coordinate":
            raise CannotTell("only coordinate files have pictures")
        line = file.readline()
        while line.startswith("%") or not line.strip():
            line = file.readline()
        body = file.read()
    if "d" in body or "D" in body:  # 1.0D+00, as Fortran writes it
        body = body.lower().replace("d", "e")
    columns = 2 if words[3] == "pattern" else 3
    numbers = numpy.fromstring(body, sep=" ")
    entries = numbers[: len(numbers) // columns * columns].reshape(-1, columns)[:, :2].astype(numpy.int64) - 1
    if words[4] != "general":
        off_diagonal = entries[entries[:, 0] != entries[:, 1]]
        entries = numpy.concatenate([entries, off_diagonal[:, ::-1]])
    cell = max(1, math.ceil(max(info["rows"], info["cols"]) / GRID))
    height, width = math.ceil(info["rows"] / cell), math.ceil(info["cols"] / cell)
    places = entries[:, 0] // cell * width + entries[:, 1] // cell
    if len(places) and not 0 <= places.min() <= places.max() < height * width:
        raise CannotTell("entries lie outside it")
    return {"cell": cell, "counts": numpy.bincount(places, minlength=height * width).reshape(height, width)}


def row_of(matrix, info):
    rows, square = info["row_length"], info["square"]
    return [name(label(matrix)), whole(info["rows"]), whole(info["cols"]), whole(info["nnz"]),
            cell(rows["mean"], digits), whole(rows["max"]), whole(info["empty_rows"]), cell(rows["gini"], digits),
            cell(info["structural_symmetry"], percent), cell(square["products"], count), cell(square["compression"], digits)]


def figure(matrix, info):
    classes = info["row_length_histogram"]
    names = [str(c["from"]) if c["from"] == c["to"] else f"{short_count(c['from'])}–{short_count(c['to'])}" for c in classes]
    rows = max(info["rows"], 1)

    def paint(fig):
        spy, axes = fig.subplots(1, 2, width_ratios=(1, 1.6))
        crowded = len(names) > 7
        draw.place(fig, left=0.1, right=0.1, top=0.3, bottom=0.85 if crowded else 0.5, wspace=0.3)
        ink = numpy.log1p(info["picture"]["counts"])
        shade = numpy.empty((*ink.shape, 4))
        shade[..., :3] = draw.rgb("accent")
        shade[..., 3] = numpy.where(ink > 0, 0.4 + 0.6 * ink / max(ink.max(), 1), 0)
        spy.imshow(shade, interpolation="none")
        spy.set(xticks=[], yticks=[])
        spy.spines[:].set_visible(True)
        most = max(c["rows"] for c in classes)
        draw.log_axis(axes.yaxis, [1, 1.6 * most], short_count, most=5)
        axes.bar(range(len(names)), [c["rows"] for c in classes], color=draw.COLOURS["accent"], width=0.78)
        axes.set_xticks(range(len(names)), names, rotation=60 if crowded else 0, ha="right" if crowded else "center", fontsize=8, rotation_mode="anchor")
        axes.grid(axis="x", visible=False)
        axes.set_title("rows")
        axes.set_xlabel("non-zeros in a row")

    length = info["row_length"]
    see = (f"Rows have {digits(length['mean'])} non-zeros on average and at most {length['max']:,}"
           + (f", {digits(length['max'] / length['mean'])} times as many" if length["max"] > 2 * length["mean"] > 0 else "")
           + (f"; {percent(info['empty_rows'] / rows)} of the rows are empty" if info["empty_rows"] else "") + ".")
    table = Table(["non-zeros in a row", "rows", "share of the rows"],
                  [[Cell(text, c["from"]), whole(c["rows"]), cell(c["rows"] / rows, percent)] for text, c in zip(names, classes)])
    picture = draw.picture(paint, 3.2, says=f"Where the entries of {label(matrix)} lie, and its rows by their number of non-zeros") if classes else None
    size = info["picture"]["cell"]
    note = f"{info['rows']:,} x {info['cols']:,}, {info['nnz']:,} non-zeros" + (f"; a dot on the left is {size} x {size} places" if size > 1 else "")
    return Figure(label(matrix), see, picture, table, [note])


def short_count(value):
    """1023 as 1.02k: for labels."""
    unit, size = next(((unit, size) for unit, size in (("M", 1e6), ("k", 1e3)) if value >= size), ("", 1))
    return f"{value / size:.3g}{unit}"
