"""D2's curve: time of a product against n at 80 % zeros, and the registers of the step that holds the matrix in them."""

import math

from matplotlib.lines import Line2D

from . import pictures as draw
from .ladder import series_over_n
from .results import grouped
from .words import Cell, Figure, Section, Table, cell, digits, seconds, times, title

REGISTER_ENTRY = "06_cuda_register/row_per_thread"
ORIGINAL_JUMP = 408  # where the curve of the course report behind steps 3 to 6 jumped, on a GTX 1080 Ti


def local_bytes(row):
    """Bytes of local memory of a thread; older records have them under another name."""
    return row.metrics.get("local_bytes_per_thread", row.metric("spilled_bytes_per_thread"))


def studies(files):
    figures, told = [], []
    for file in files:
        for kind, rows in grouped(file.rows, lambda r: r.problem.kind()).items():
            timed = [r for r in rows if r.ranked() and series_over_n(r.problem.matrix) is not None]
            if len({r.problem.matrix for r in timed}) > 2:
                figures.append(curve(file, kind, timed, len(files) > 1))
                points = register_points(timed)
                # The compiler's choice is the same however often or in what way the kernel is launched: told once.
                used = [(n, r.metric("registers_per_thread"), local_bytes(r)) for n, r in points]
                if len(points) > 2 and used not in told:
                    told.append(used)
                    figures.append(registers(points))
    if not figures:
        return []
    return [Section("study", "Time against n: 80 % zeros, every row alike",
                    "The study behind steps 3 to 6. Coloured lines: the fastest entry of each step at the largest n, the step that "
                    "keeps a row in each thread's registers, and the fastest call of each library; thin grey lines: all others. The time axis is logarithmic.",
                    figures)]


def curves_of(rows):
    """{entry: [(n, row), ...] by n}"""
    out = {e: sorted(((series_over_n(r.problem.matrix), r) for r in of), key=lambda p: p[0]) for e, of in grouped(rows, lambda r: r.entry).items()}
    return out


def chosen(curves):
    """The entries that are drawn in colour."""
    largest = max(n for points in curves.values() for n, _ in points)
    at_end = {e: dict(points).get(largest) for e, points in curves.items()}
    families = {}
    for entry in curves:
        stage, _, call = entry.partition("/")
        families.setdefault(call.split("_")[0] if stage == "vendor" else stage, []).append(entry)
    out = []
    for entries in families.values():
        there = [e for e in entries if at_end[e] is not None]
        if there:
            out.append(min(there, key=lambda e: at_end[e].times.median))
    if REGISTER_ENTRY in curves and REGISTER_ENTRY not in out:
        out.append(REGISTER_ENTRY)
    return sorted(out, key=list(curves).index)


def spills(points):
    """The first n at which the compiler spills, or None."""
    return next((n for n, r in points if local_bytes(r) > 0), None)


def curve(file, kind, rows, several):
    curves = curves_of(rows)
    coloured = chosen(curves)
    short_of = {e: points[0][1].short for e, points in curves.items()}

    def paint(figure, narrow):
        axes = figure.subplots()
        told = [short_of[e] for e in coloured]
        draw.place(figure, left=0.62, right=0.15 if narrow else draw.room(told) + 0.65, top=0.12, bottom=0.42 + (draw.legend_height(told) if narrow else 0))
        for entry, points in curves.items():
            if entry not in coloured:
                axes.plot([n for n, _ in points], [r.times.median for _, r in points], color=draw.COLOURS["faint"], linewidth=0.7)
        handles = []
        for k, entry in enumerate(coloured):
            points = curves[entry]
            colour, peer = draw.SERIES[k % 10], points[0][1].peer
            style = dict(color=colour, linewidth=1.6, linestyle=(0, (5, 2)) if peer else "-", marker=draw.MARKERS[k % 10], markersize=4)
            axes.fill_between([n for n, _ in points], [r.times.q1 for _, r in points], [r.times.q3 for _, r in points], color=colour, alpha=0.18, linewidth=0)
            axes.plot([n for n, _ in points], [r.times.median for _, r in points], **style)
            handles.append(Line2D([], [], **style))
        first = spills(curves.get(REGISTER_ENTRY, []))
        if first:
            axes.axvline(first, color=draw.COLOURS["bad"], linewidth=1, linestyle=(0, (2, 2)))
        draw.log_axis(axes.yaxis, [v for r in rows for v in (r.times.q1, r.times.q3)], draw.tick_time, most=5)
        axes.set_xlabel("n")
        width = figure.get_size_inches()[0]
        draw.legend(figure, handles, told, narrow, where=(1 - (draw.room(told) + 0.5) / width, 0.55))

    sizes = sorted({n for points in curves.values() for n, _ in points})
    by_n = {e: dict(points) for e, points in curves.items()}
    fastest = {n: min((by_n[e][n] for e in curves if n in by_n[e]), key=lambda r: r.times.median) for n in sizes}
    table = Table(["n", *(short_of[e] for e in curves)],
                  [[Cell(str(n), n), *(cell(by_n[e][n].times.median, seconds, "best" if by_n[e][n] is fastest[n] else "") if n in by_n[e] else Cell("", math.nan)
                                       for e in curves)] for n in sizes])
    last = fastest[sizes[-1]]
    libraries = [by_n[e][sizes[-1]] for e in curves if sizes[-1] in by_n[e] and by_n[e][sizes[-1]].peer]
    see = f"At n = {sizes[-1]} {last.short} is the fastest, {seconds(last.times.median)} a product"
    if libraries and not last.peer:
        library = min(libraries, key=lambda r: r.times.median)
        see += f", {times(library.times.median / last.times.median)} the speed of {library.short}"
    see += "."
    first = spills(curves.get(REGISTER_ENTRY, []))
    if first:
        see += f" Beyond the dotted line at n = {first}, row_per_thread spills from registers to memory."
    told = [short_of[e] for e in coloured]
    return Figure(f"{title(kind)}{file.launch()}" + (f" ({file.name})" if several else ""), see,
                  draw.picture(paint, 3.6, 3.0 + draw.legend_height(told), says="Time of one product against n; the table below has the numbers"), table,
                  [f"medians, quartiles shaded; {file.machine()}"])


def register_points(rows):
    """(n, row) of the step that keeps a row in each thread's registers, where it is known how many it has."""
    return [(n, r) for n, r in curves_of(rows).get(REGISTER_ENTRY, []) if math.isfinite(r.metric("registers_per_thread"))]


def registers(points):
    """The register cliff: what the compiler gave that step."""
    n = [p[0] for p in points]
    first = spills(points)

    def paint(figure, narrow):
        above, below = figure.subplots(2, 1, sharex=True)
        draw.place(figure, left=0.62, right=0.2, top=0.3, bottom=0.42, hspace=0.42)
        above.plot(n, [r.metric("registers_per_thread") for _, r in points], color=draw.COLOURS["accent"], marker="o", markersize=4, drawstyle="steps-mid")
        above.set_title("registers of a thread", loc="left", fontsize=9, color=draw.COLOURS["muted"])
        above.set_ylim(0, 270)
        above.set_yticks([0, 64, 128, 192, 255])
        below.plot(n, [local_bytes(r) for _, r in points], color=draw.COLOURS["bad"], marker="s", markersize=4, drawstyle="steps-mid")
        below.set_title("bytes of a thread spilled to memory", loc="left", fontsize=9, color=draw.COLOURS["muted"])
        below.set_ylim(bottom=0)
        for axes in (above, below):
            if first:
                axes.axvspan(first, n[-1], color=draw.COLOURS["shade"], alpha=0.6, linewidth=0)
            if n[0] < ORIGINAL_JUMP < n[-1]:
                axes.axvline(ORIGINAL_JUMP, color=draw.COLOURS["faint"], linewidth=1, linestyle=(0, (2, 2)))
        if n[0] < ORIGINAL_JUMP < n[-1]:
            above.text(ORIGINAL_JUMP + 6, 12, "the original's jump, n = 408", fontsize=8, color=draw.COLOURS["muted"])
        below.set_xlabel("n")

    see = ("The compiler keeps the row in registers at every n here." if not first else
           f"From n = {first} on, a row no longer fits into the 255 registers that a thread can have: part of it is read from memory in every product, "
           "which is what the step was to avoid.")
    table = Table(["n", "non-zeros in a row", "registers", "spilled bytes", "time of one product"],
                  [[Cell(str(k), k), cell(r.problem.nnz / r.problem.rows, digits), cell(r.metric("registers_per_thread"), digits),
                    cell(local_bytes(r), lambda v: f"{v:g}"), cell(r.times.median, seconds)] for k, r in points])
    return Figure("The register cliff: 06 row_per_thread", see, draw.picture(paint, 3.4, says="Registers and spilled bytes of a thread against n"), table)
