"""The ladder: the entries of one multiplication in the order of the course, and what each step gained."""

import math
import re

from matplotlib.lines import Line2D

from . import pictures as draw
from .results import grouped
from .words import (Cell, Figure, Section, Table, cell, digits, geometric_mean, label, name, percent, plural, seconds, short, times, title)

LADDER_LEAD = ("Steps in the order of the course, libraries (orange diamonds) below; further left is faster. The mark is the median, the line through it "
               "spans the quartiles, the dashed line is the fastest library. Axes are logarithmic.")


def series_over_n(matrix):
    """The n of a matrix of the study over n (gen:fixed, 80 % zeros), or None."""
    match = re.fullmatch(r"gen:fixed:n=(\d+),zeros=0\.8", matrix)
    return int(match.group(1)) if match else None


def ladder_rows(rows):
    """Of the rows of one multiplication those of a ladder: of an entry that ran on several numbers of ranks the one
    with most. An entry skipped there gives way to the most ranks on which it ran."""
    out = {}
    for row in rows:
        before = out.get(row.entry)
        if before is None or (row.times is not None, row.ranks) >= (before.times is not None, before.ranks):
            out[row.entry] = row
    return list(out.values())


def pays_after(row):
    value = row.break_even
    if not row.ranked():
        return Cell("", math.nan)
    if math.isnan(value):
        return Cell("never", math.inf)
    return Cell("at once" if value == 0 else f"{value:,.0f} runs", value)


def remark(row):
    """Why there is no time, or what is special about it; and how it looks."""
    if row.status == "skipped":
        return "skipped: " + row.reason, "dim"
    if row.status != "good":
        return row.status.upper() + ": " + row.reason, "bad"
    told = ["checked on the executor, not timed"] if row.simulated else []
    told += ["structure reused: not ranked"] if row.structure_reuse else []
    told += [row.note] if row.note else []
    return "; ".join(told), "dim"


def ladder_table(rows, best):
    heads = ["entry*", "time", "quartiles", "±", "GFLOP/s", "bandwidth", "vs step", "vs library", "prepare", "pays after"]
    out = []
    for row in rows:
        t = row.times
        mark = "best" if row is best else ""
        if t is None:
            cells = [Cell("", math.nan) for _ in heads[1:]]
        else:
            noise = t.noise if math.isfinite(t.noise) else math.inf
            cells = [cell(t.median, seconds, mark), Cell(f"{seconds(t.q1)} – {seconds(t.q3)}", t.q1),
                     Cell(percent(noise) if math.isfinite(noise) else "?", noise), cell(row.gflops, digits),
                     cell(row.bandwidth_share, percent), cell(row.speedup_previous, times), cell(row.speedup_peer, times),
                     cell(t.prepare, seconds), pays_after(row)]
        out.append([name(row.entry + (f" on {row.ranks}" if row.mpi else ""), "code " + mark, *remark(row)), *cells])
    return Table(heads, out).without_empty_columns()


def what_to_see(timed, best, library):
    steps = [r for r in timed if not r.peer]
    told = f"{best.short} is the fastest, {seconds(best.times.median)} a product"
    if len(steps) > 1 and steps[0] is not best and not best.peer:
        told += f": {times(steps[0].times.median / best.times.median)} the first step, {steps[0].short}"
    told += "."
    if library and steps:
        own = min(steps, key=lambda r: r.times.median)
        told += f" The fastest library is {library.short}; the fastest step runs at {times(library.times.median / own.times.median)} its speed."
    return told


def ladder_picture(timed, library, best):
    labels = [short(r.short, 25) for r in timed]
    steps = [r for r in timed if not r.peer]
    first = (steps or timed)[0].times.median

    def paint(figure, narrow):
        left = draw.room(labels) + 0.15
        figure.subplots(1, 1 if narrow else 2, sharey=True)
        panels = figure.axes
        draw.place(figure, left=left, right=0.62 if narrow else 0.55, top=0.28, bottom=0.3, wspace=0.12)
        axes = panels[0]
        for place, row in enumerate(timed):
            t = row.times
            colour = draw.COLOURS["good" if row is best else "peer" if row.peer else "accent"]
            axes.plot([t.q1, t.q3], [place, place], color=colour, linewidth=1.4, marker="|", markersize=7)
            axes.plot([t.median], [place], marker="D" if row.peer else "o", color=colour, markersize=5.5)
        if library:
            axes.axvline(library.times.median, color=draw.COLOURS["peer"], linewidth=1, linestyle=(0, (4, 3)))
        draw.log_axis(axes.xaxis, [v for r in timed for v in (r.times.q1, r.times.q3)], draw.tick_time, pad=0.08,
                      most=3 if narrow else 5)
        axes.set_yticks(range(len(timed)), labels)
        axes.set_ylim(len(timed) - 0.4, -0.6)
        axes.set_title("time" if narrow else "time of one product", loc="left", fontsize=9, color=draw.COLOURS["muted"])
        axes.grid(axis="y", visible=False)
        if narrow:
            axes.annotate("vs first", (1.03, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points", fontsize=8.5, color=draw.COLOURS["muted"])
            for place, row in enumerate(timed):
                axes.text(1.03, place, times(first / row.times.median), transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        else:
            speed_panel(panels[1], timed, first, best, library)

    height = 0.63 + 0.235 * len(timed)
    return draw.picture(paint, height, says=f"Times of {plural(len(timed), 'entry', 'entries')} on a logarithmic axis; the table below has the numbers")


def speed_panel(axes, timed, first, best, library):
    for place, row in enumerate(timed):
        speed = first / row.times.median
        colour = draw.COLOURS["good" if row is best else "peer" if row.peer else "accent"]
        axes.plot([1, speed], [place, place], color=colour, linewidth=5, alpha=0.55 if row.peer else 0.9, solid_capstyle="butt")
        axes.text(1.02, place, times(speed), transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
    if library:
        axes.axvline(first / library.times.median, color=draw.COLOURS["peer"], linewidth=1, linestyle=(0, (4, 3)))
    axes.axvline(1, color=draw.COLOURS["faint"], linewidth=1)
    draw.log_axis(axes.xaxis, [1, *(first / r.times.median for r in timed)], draw.tick_times, most=5)
    axes.set_title("speed-up over the first step", loc="left", fontsize=9, color=draw.COLOURS["muted"])
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelleft=False)


def ladder_figure(rows):
    """One multiplication, or None where nothing of it was timed."""
    rows = ladder_rows(rows)
    timed = [r for r in rows if r.ranked()]
    if not timed:
        return None
    best = min(timed, key=lambda r: r.times.median)
    library = min((r for r in timed if r.peer), key=lambda r: r.times.median, default=None)
    problem = rows[0].problem
    shape = f"{problem.rows:,} x {problem.cols:,}, {problem.nnz:,} non-zeros"
    if problem.operation == "spgemm":
        shape += f", {problem.multiplications:,} products"
    return Figure(label(problem.matrix), what_to_see(timed, best, library), ladder_picture(timed, library, best),
                  ladder_table(rows, best), [shape])


def ladders(files):
    """A section for each kind of multiplication in each file."""
    sections = []
    for file in files:
        for kind, rows in grouped(file.rows, lambda r: r.problem.kind()).items():
            by_matrix = grouped(rows, lambda r: r.problem.matrix)
            sizes = {m: series_over_n(m) for m in by_matrix}
            if sum(n is not None for n in sizes.values()) > 2:  # a study over n has a picture of its own: here its end only
                last = max((m for m in sizes if sizes[m]), key=sizes.get)
                by_matrix = {m: r for m, r in by_matrix.items() if sizes[m] is None or m == last}
            figures = [f for f in map(ladder_figure, by_matrix.values()) if f]
            if not figures:
                continue
            where = f" ({file.name})" if len(files) > 1 else ""
            sections.append(Section(f"ladder-{len(sections)}", f"{title(kind)}{file.launch()}: step by step{where}", "" if sections else LADDER_LEAD, figures, "matrix"))
    return sections


def against_library(files):
    """A section for each kind of multiplication with several matrices and a library: speeds over the fastest library."""
    sections = []
    for file in files:
        for kind, rows in grouped(file.rows, lambda r: r.problem.kind()).items():
            rows = [r for r in rows if r.ranked() and (series_over_n(r.problem.matrix) is None)]
            by_matrix = {m: ladder_rows(of) for m, of in grouped(rows, lambda r: r.problem.matrix).items()}
            by_matrix = {m: of for m, of in by_matrix.items() if any(r.peer for r in of) and any(not r.peer for r in of)}
            if len(by_matrix) < 2:
                continue
            where = f" ({file.name})" if len(files) > 1 else ""
            lead = "" if sections else ("Right of the line at 1, a step is faster than the fastest library on that matrix. The large mark is the fastest step.")
            sections.append(Section(f"library-{len(sections)}", f"{title(kind)}{file.launch()}: against the libraries, by matrix{where}", lead, [library_figure(by_matrix)]))
    return sections


def library_figure(by_matrix):
    library = {m: min((r for r in rows if r.peer), key=lambda r: r.times.median) for m, rows in by_matrix.items()}
    speeds = {m: {r.entry: library[m].times.median / r.times.median for r in rows if not r.peer} for m, rows in by_matrix.items()}
    short_of = {r.entry: r.short for rows in by_matrix.values() for r in rows}
    entries = [e for e in short_of if any(e in s for s in speeds.values())]
    best = {m: max(s, key=s.get) for m, s in speeds.items()}
    mean = geometric_mean(speeds[m][best[m]] for m in speeds)
    wins = sum(speeds[m][best[m]] > 1 for m in speeds)

    def paint(figure, narrow):
        names = [short(m, 16 if narrow else 24) for m in by_matrix]
        axes = figure.subplots()
        told = [short_of[e] for e in entries]
        draw.place(figure, left=draw.room(names) + 0.15, right=0.15 if narrow else draw.room(told) + 0.5, top=0.1,
                   bottom=0.35 + (draw.legend_height(told) if narrow else 0))
        for place, matrix in enumerate(by_matrix):
            axes.axhline(place, color=draw.COLOURS["grid"], linewidth=0.8)
            for entry, speed in speeds[matrix].items():
                k = entries.index(entry)
                fastest = entry == best[matrix]
                axes.plot([speed], [place], draw.MARKERS[k % 10], color=draw.SERIES[k % 10], markersize=7.5 if fastest else 4.5,
                          alpha=1 if fastest else 0.6, zorder=3 + fastest, markeredgewidth=0)
        axes.axvline(1, color=draw.COLOURS["peer"], linewidth=1.2, linestyle=(0, (4, 3)))
        draw.log_axis(axes.xaxis, [1, *(s for of in speeds.values() for s in of.values())], draw.tick_times, most=4 if narrow else 6)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        handles = [Line2D([], [], linestyle="", marker=draw.MARKERS[k % 10], color=draw.SERIES[k % 10], markersize=5.5) for k in range(len(entries))]
        width = figure.get_size_inches()[0]
        draw.legend(figure, handles, told, narrow, where=(1 - (draw.room(told) + 0.35) / width, 0.5))

    height = 0.6 + 0.27 * len(by_matrix)
    wide = max(height, 0.5 + 0.2 * len(entries))
    told = [short_of[e] for e in entries]
    table = Table(["matrix*", *(f"{short_of[e]}" for e in entries), "fastest step*", "fastest library*", "its time"],
                  [[name(label(m)), *(cell(speeds[m].get(e, math.nan), times, "best" if e == best[m] else "") for e in entries),
                    name(best[m]), name(library[m].entry), cell(library[m].times.median, seconds)] for m in by_matrix])
    see = (f"The fastest step beats the fastest library on {wins} of {len(speeds)} matrices; geometric mean of its speed over "
           f"the library's: {times(mean)}.")
    return Figure("", see, draw.picture(paint, wide, height + draw.legend_height(told), says="Speed of each step over the fastest library, by matrix; the table below has the numbers"), table)
