"""The ladder of bytes: what the kernels of a machine without a GPU asked of memory, and the times that a GPU recorded."""

import math

from tables import ROOT

from . import pictures as draw
from .ladder import ladder_rows
from .results import grouped
from .words import Cell, Figure, Section, Table, amount, cell, digits, label, name, plural, seconds, short, title

LEAD = ("No GPU is here, so nothing below was timed here. The lens counted on the executor what one product fetches from L2 and memory, and "
        "below what time no GPU of that kind can run it: a bound, which a kernel may miss by far. Blue bars are bytes; a stroke "
        "marks the bound. The diamonds are times that a GPU recorded, mostly of a larger matrix, which the table names (of a stream or a chain: a "
        "product of many in one launch, which the bound is not for): compare their order, not their length.")


def recorded():
    """{entry: (seconds, what was multiplied, machine)} of the CUDA steps, from data/records.tsv."""
    file = ROOT / "data/records.tsv"
    lines = [line.split("\t") for line in file.read_text().splitlines() if not line.startswith("#")] if file.exists() else []
    return {entry: (float(time), what, machine) for entry, time, what, machine in lines if entry[:2] in ("03", "04", "05", "06", "07", "08")}


def fetched_picture(rows, times):
    labels = [short(r.short, 25) for r in rows]
    shown = [(r.metric("at_least_seconds"), times.get(r.entry, (math.nan,))[0]) for r in rows]

    def paint(figure):
        bytes_axes, time_axes = figure.subplots(1, 2, sharey=True)
        draw.place(figure, left=draw.room(labels) + 0.15, right=0.2, top=0.28, bottom=0.3, wspace=0.12)
        fetched = [r.metric("fetched_bytes") for r in rows]
        least = min(fetched) / 1.5
        for place, (value, (bound, time)) in enumerate(zip(fetched, shown)):
            bytes_axes.plot([least, value], [place, place], color=draw.COLOURS["accent"], linewidth=5, solid_capstyle="butt")
            time_axes.plot([bound], [place], marker="|", markersize=9, color=draw.COLOURS["accent"])
            time_axes.plot([time], [place], marker="D", markersize=5, color=draw.COLOURS["peer"])
        draw.log_axis(bytes_axes.xaxis, [least, *fetched], amount, most=5)
        draw.log_axis(time_axes.xaxis, [v for pair in shown for v in pair], draw.tick_time, most=5)
        draw.rows(labels, bytes_axes, time_axes)
        bytes_axes.set_title("bytes fetched")
        time_axes.set_title("bound | and recorded time")

    return draw.picture(paint, 0.63 + 0.235 * len(rows), says="Bytes fetched and bounds of the entries, and recorded times; the table below has the numbers")


def fetched_table(rows, times):
    heads = ["entry*", "bytes fetched", "sectors a request", "at least", "recorded time", "recorded of*"]
    out = []
    for row in rows:
        time, what, machine = times.get(row.entry, (math.nan, "", ""))
        out.append([name(row.entry, "code"), cell(row.metric("fetched_bytes"), amount), cell(row.metric("sectors_a_request"), digits),
                    cell(row.metric("at_least_seconds"), seconds), cell(time, seconds), Cell(f"{what}, {machine}" if what else "")])
    return Table(heads, out).without_empty_columns()


def what_to_see(rows):
    least, most = (pick(rows, key=lambda r: r.metric("fetched_bytes")) for pick in (min, max))
    if len(rows) == 1 or most is least:
        return f"{plural(len(rows), 'entry', 'entries')}, checked and counted."
    ratio = most.metric("fetched_bytes") / least.metric("fetched_bytes")
    return f"{least.short} fetches least, {amount(least.metric('fetched_bytes'))}; {most.short} fetches {digits(ratio)} times as much for the same product."


def fetched(files):
    """A section for each kind of multiplication in which kernels were counted."""
    sections, times = [], recorded()
    for file in files:
        counted = [r for r in file.rows if r.status == "good" and r.simulated and math.isfinite(r.metric("fetched_bytes"))]
        for kind, rows in grouped(counted, lambda r: r.problem.kind()).items():
            figures = []
            for matrix, of in grouped(rows, lambda r: r.problem.matrix).items():
                of = ladder_rows(of)
                figures.append(Figure(label(matrix), what_to_see(of), fetched_picture(of, times), fetched_table(of, times)))
            where = f" ({file.name})" if len(files) > 1 else ""
            sections.append(Section(f"fetched-{len(sections)}", f"{title(kind)}: what the kernels fetch{where}", "" if sections else LEAD, figures, "matrix"))
    return sections
