"""The ladder: the entries of one multiplication in the order of the course, and what each step gained."""

import functools
import math

from tables import ROOT, size_of

from . import pictures as draw
from .results import grouped
from .words import (Cell, Figure, Section, Table, amount, cell, digits, label, name, of_copy, percent, plural, seconds, short, times,
                    title)

# What the lens counts of kernels that ran on the executor (stages run): the metrics, and how they are shown.
COUNTED = {"asked_of_L1": amount, "sectors_a_nonzero": digits, "sectors_a_product": digits, "busiest_warp": digits, "warp_over_mean": digits,
           "block_over_mean": digits, "at_least_seconds": seconds}
LADDER_LEAD = ("Steps in the order of the course, vendor libraries (orange diamonds) below; further left is faster. The mark is the median, the line through it "
               "spans the quartiles, the dashed line is the fastest library. Axes are logarithmic.")


def ladder_rows(rows):
    """Of the rows of one multiplication those of a ladder: of an entry that ran on several numbers of ranks the one
    with most. An entry skipped there gives way to the most ranks on which it ran."""
    most = lambda of: max(reversed(of), key=lambda row: (row.times is not None, row.ranks))
    return [most(of) for of in grouped(rows, lambda row: row.entry).values()]


def pays_after(row):
    value = row.pays_after
    if not math.isnan(value) and not row.break_even_known:
        return Cell("?", value)
    return Cell("" if math.isnan(value) else "never" if value == math.inf else "at once" if value == 0 else f"{value:,.0f} runs", value)


def versus(speedup):
    """Exactly 1 is what the noise leaves of it."""
    return Cell("~1x", speedup) if speedup == 1 else cell(speedup, times)


def remark(row):
    """Why there is no time, or what is special about it; and how it looks."""
    if row.status != "good":
        return row.status.upper() + ": " + row.reason, "bad"
    told = ["checked on the executor, not timed"] if row.simulated else []
    told += ["structure reused: not ranked"] if row.structure_reuse else []
    told += [f"vs {row.previous.rpartition('/')[2]}"] if row.speedup_previous > 0 else []
    told += [row.note] if row.note else []
    return "; ".join(told), "dim"


@functools.cache
def records():
    """Of data/records.tsv: the seconds and the machine, by entry, matrix and options."""
    lines = (line.split("\t") for line in (ROOT / "data/records.tsv").read_text().splitlines() if not line.startswith("#"))
    return {(entry, *problem): (float(seconds), machine) for entry, seconds, _, machine, *problem in lines}


def recorded(row):
    """The seconds and the machine of the record of this very product, which was not timed here."""
    known = records() if row.simulated and row.problem.type == "f32" else {}
    return known.get((row.entry, row.problem.matrix, row.problem.options or "-"), (math.nan, ""))


def ladder_table(rows, best):
    counts = [*(metric.removesuffix("_seconds").replace("_", " ") for metric in COUNTED), "recorded time", "on*"]
    heads = ["entry*", "time", "quartiles", "±", "GFLOP/s", "bandwidth", "vs step", "vs vendor", "prepare", "pays after"]
    out = []
    for row in rows:
        t = row.times
        mark = "best" if row is best else ""
        if t is None:
            cells = [Cell("", math.nan)] * (len(heads) - 1)
        else:
            noise = t.noise if math.isfinite(t.noise) else math.inf
            cells = [cell(t.median, seconds, mark), Cell(f"{seconds(t.q1)} – {seconds(t.q3)}", t.q1),
                     Cell(percent(noise) if math.isfinite(noise) else "?", noise), cell(row.gflops, digits),
                     cell(row.bandwidth_share, of_copy), versus(row.speedup_previous), versus(row.speedup_peer),
                     cell(t.prepare, seconds), pays_after(row)]
        time, machine = recorded(row)
        out.append([name(row.entry + (f" on {row.ranks}" if row.mpi else ""), "code " + mark, *remark(row)), *cells,
                    *(cell(row.metric(metric), show) for metric, show in COUNTED.items()), cell(time, seconds), Cell(machine)])
    return Table(heads + counts, out).without_empty_columns()


def what_was_asked(rows):
    least, most = (pick(rows, key=lambda r: r.metric("asked_of_L1")) for pick in (min, max))
    busiest = max(rows, key=lambda r: r.metric("busiest_warp"))
    return (f"Nothing was timed here, as there is no GPU: the lens counted on the executor. {least.short} asks L1 for least, "
            f"{amount(least.metric('asked_of_L1'))}; {most.short} for {digits(most.metric('asked_of_L1') / least.metric('asked_of_L1'))} times as much. The "
            f"busiest warp of {busiest.short} has {digits(busiest.metric('warp_over_mean'))} times the mean one's requests. No GPU is faster than \"at least\" "
            "says, and a kernel may be far slower.")


def asked_picture(rows):
    labels, asked = [short(r.short, 25) for r in rows], [r.metric("asked_of_L1") for r in rows]

    def paint(figure):
        axes = figure.subplots()
        draw.place(figure, left=draw.room(labels) + 0.15, right=0.2, top=0.28, bottom=0.3)
        for place, value in enumerate(asked):
            axes.plot([min(asked) / 1.5, value], [place, place], color=draw.COLOURS["accent"], linewidth=5, solid_capstyle="butt")
        draw.log_axis(axes.xaxis, [min(asked) / 1.5, *asked], amount, most=5)
        draw.rows(labels, axes)
        axes.set_title("bytes asked of L1")

    return draw.picture(paint, 0.63 + 0.235 * len(rows), says="Bytes that the entries ask of L1; the table below has the numbers")


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
    first = next((r for r in timed if not r.peer), timed[0]).times.median
    colour_of = lambda row: draw.COLOURS["good" if row is best else "vendor" if row.peer else "accent"]
    speed = lambda row: first / row.times.median

    def paint(figure):
        left, right = figure.subplots(1, 2, sharey=True)
        draw.place(figure, left=draw.room(labels) + 0.15, right=0.55, top=0.28, bottom=0.3, wspace=0.12)
        for place, row in enumerate(timed):
            t, colour = row.times, colour_of(row)
            left.plot([t.q1, t.q3], [place, place], color=colour, linewidth=1.4, marker="|", markersize=7)
            left.plot([t.median], [place], marker="D" if row.peer else "o", color=colour, markersize=5.5)
            right.plot([1, speed(row)], [place, place], color=colour, linewidth=5, alpha=0.55 if row.peer else 0.9, solid_capstyle="butt")
            right.text(1.02, place, times(speed(row)), transform=right.get_yaxis_transform(), va="center", fontsize=8.5)
        right.axvline(1, color=draw.COLOURS["faint"], linewidth=1)
        draw.log_axis(left.xaxis, [v for r in timed for v in (r.times.q1, r.times.q3)], draw.tick_time, pad=0.08, most=5)
        draw.log_axis(right.xaxis, [1, *map(speed, timed)], draw.tick_times, most=5)
        draw.rows(labels, left, right)
        for axes, of_library, words in ((left, library and library.times.median, "time of one product"), (right, library and speed(library), "speed-up over the first step")):
            if library:
                axes.axvline(of_library, color=draw.COLOURS["vendor"], linewidth=1, linestyle=(0, (4, 3)))
            axes.set_title(words)

    return draw.picture(paint, 0.63 + 0.235 * len(timed), says=f"Times of {plural(len(timed), 'entry', 'entries')} on a logarithmic axis; the table below has the numbers")


def ladder_figure(rows):
    """One multiplication, or None where nothing of it was timed, or counted."""
    rows = ladder_rows(rows)
    timed = [r for r in rows if r.ranked()]
    counted = [r for r in rows if r.status == "good" and math.isfinite(r.metric("asked_of_L1"))]
    if not timed and not counted:
        return None
    best = min(timed, key=lambda r: r.times.median, default=None)
    library = min((r for r in timed if r.peer), key=lambda r: r.times.median, default=None)
    problem = rows[0].problem
    shape = f"{problem.rows:,} x {problem.cols:,}, {problem.nnz:,} non-zeros"
    if problem.operation == "spgemm":
        shape += f", {problem.multiplications:,} products"
    skipped = [r for r in rows if r.status == "skipped"]
    folded = (f"{plural(len(skipped), 'entry', 'entries')} skipped",
              Table(["entry*", "why*"], [[name(r.entry), Cell(r.reason, None, "dim")] for r in skipped])) if skipped else ()
    seen = (what_to_see(timed, best, library), ladder_picture(timed, library, best)) if timed else (what_was_asked(counted), asked_picture(counted))
    return Figure(label(problem.matrix), *seen,
                  ladder_table([r for r in rows if r.status != "skipped"], best), [shape], folded)


def ladders(files):
    """A section for each kind of multiplication in each file."""
    sections = []
    for file in files:
        for kind, rows in grouped(file.rows, lambda r: r.problem.kind()).items():
            by_matrix = grouped(rows, lambda r: r.problem.matrix)
            sizes = {m: size_of(m) for m in by_matrix}
            if sum(n is not None for n in sizes.values()) > 2:  # of a study over n its end only: tools/draw_curve.py draws the curve
                last = max((m for m in sizes if sizes[m]), key=sizes.get)
                by_matrix = {m: r for m, r in by_matrix.items() if sizes[m] is None or m == last}
            figures = [f for f in map(ladder_figure, by_matrix.values()) if f]
            if not figures:
                continue
            where = f" ({file.name})" if len(files) > 1 else ""
            sections.append(Section(f"ladder-{len(sections)}", f"{title(kind)}{file.launch()}: step by step{where}", "" if sections else LADDER_LEAD, figures, "matrix"))
    return sections
