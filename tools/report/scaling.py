"""Several processes: speed-up against the number of ranks, by three clocks, beside the ideal line."""

import math
import re

from . import pictures as draw
from .results import grouped
from .words import Cell, Figure, Section, Table, amount, cell, digits, label, name, seconds, times, title

CLOCKS = (("compute_seconds", "compute"), ("distributed_seconds", "+ exchange"), ("root_to_root_seconds", "root to root"))


def scaled(spec, ranks):
    """A spec of weak scaling on so many ranks: sizes followed by xR are multiplied by them."""
    return re.sub(r"(?<=[=:])(\d+(?:\.\d*)?(?:e\+?\d+)?)xR", lambda m: f"{float(m.group(1)) * ranks:.0f}", spec)


def growing(file):
    """{matrix: spec with xR} of a file of weak scaling; empty for others."""
    words = file.context["command"].split()
    if "--weak" not in words:
        return {}
    ranks = sorted({r.ranks for r in file.rows if r.mpi})
    return {scaled(word, k): word for word in words if "xR" in word for k in ranks}


def scalings(files):
    figures = []
    for file in files:
        grown = growing(file)
        rows = [r for r in file.rows if r.ranked()]
        of = grouped(rows, lambda r: (grown.get(r.problem.matrix, r.problem.matrix), r.problem.kind()))
        for (matrix, kind), problem_rows in of.items():
            if len({r.ranks for r in problem_rows if r.mpi}) > 1:
                figures.append(figure(file, matrix, kind, problem_rows, matrix in grown.values(), len(files) > 1))
    if not figures:
        return []
    return [Section("scaling", "Over several processes",
                    "Speed-up over the fastest serial entry of step 1 in the same run. Three clocks: the slowest rank's own multiplications; these and "
                    "the messages they need; and from operands on rank 0 to a result on rank 0. On the dashed line, p ranks are p times as fast. Axes are logarithmic.",
                    figures, "problem")]


def serial_times(rows):
    """{matrix: the fastest of step 1}"""
    of = grouped([r for r in rows if r.stage.startswith("01_")], lambda r: r.problem.matrix)
    return {matrix: min(r.times.median for r in rows) for matrix, rows in of.items()}


def speed(row, clock, serial):
    return serial.get(row.problem.matrix, math.nan) / row.metric(clock)


def figure(file, matrix, kind, rows, weak, several):
    serial = serial_times(rows)
    on_ranks = sorted((r for r in rows if r.mpi), key=lambda r: r.ranks)
    # Without a serial entry in the file there is no honest speed-up: then the clocks themselves are drawn.
    value = (lambda r, c: speed(r, c, serial)) if serial else (lambda r, c: r.metric(c))
    entries = grouped(on_ranks, lambda r: r.entry)
    clocks = [c for c in CLOCKS if any(math.isfinite(value(r, c[0])) for r in on_ranks)]
    told = [of[0].short.rsplit(" on ", 1)[0] for of in entries.values()]
    ranks = sorted({r.ranks for r in on_ranks})

    def paint(fig):
        panels = fig.subplots(1, len(clocks), sharex=True, sharey=True, squeeze=False).flatten()
        columns = min(len(told) + 1, int(fig.get_size_inches()[0] / (draw.room(told) + 0.6)))
        draw.place(fig, left=0.55, right=0.15, top=0.3, bottom=0.4 + 0.2 * math.ceil((len(told) + 1) / columns), wspace=0.08)
        for panel, (clock, clock_name) in zip(panels, clocks):
            for k, (of, words) in enumerate(zip(entries.values(), told)):
                points = [(r.ranks, value(r, clock)) for r in of if math.isfinite(value(r, clock))]
                panel.plot(*zip(*points), color=draw.SERIES[k % 10], marker=draw.MARKERS[k % 10], markersize=5, linewidth=1.5, label=words)
            if serial:
                panel.plot(ranks, ranks, color=draw.COLOURS["muted"], linewidth=1, linestyle=(0, (4, 3)), label="ideal")
            panel.set_title(clock_name)
        draw.log_axis(panels[0].yaxis, [value(r, c) for r in on_ranks for c, _ in clocks] + (ranks if serial else []), draw.tick_times if serial else draw.tick_time, most=6)
        for panel in panels:
            draw.log_axis(panel.xaxis, ranks, lambda v: f"{v:g}")
            panel.xaxis.set_major_locator(draw.FixedLocator(ranks))
        panels[0].set_xlabel("ranks")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncol=columns, handlelength=1.6, borderaxespad=0.2, bbox_to_anchor=(0.5, 0.0))

    return Figure(f"{label(matrix)}, {title(kind)}" + (", weak" if weak else "") + (f" ({file.name})" if several else ""),
                  what_to_see(on_ranks, clocks, serial, ranks, weak),
                  draw.picture(paint, 3.1, says="Speed-up against the number of ranks; the table below has the numbers"),
                  scaling_table(on_ranks, serial), [bandwidths(file, ranks)])


def what_to_see(rows, clocks, serial, ranks, weak):
    most = [r for r in rows if r.ranks == ranks[-1]]
    clock, clock_name = clocks[-1]
    if not serial or not most:
        return "No entry of step 1 is in this file, so there is no speed-up: the clocks are drawn, and lower is faster."
    best = max(most, key=lambda r: speed(r, clock, serial))
    told = f"On {ranks[-1]} ranks {best.entry} is {times(speed(best, clock, serial))} the fastest serial entry, {clock_name}"
    compute = speed(best, CLOCKS[0][0], serial)
    if math.isfinite(compute):
        told += f"; its multiplications alone are {times(compute)}, and the difference is what messages cost"
    return told + "." + (" The problem grows with the ranks." if weak else "")


def bandwidths(file, ranks):
    keys = {k: file.context.get(f"ranks={k}: copy_bandwidth_bytes_per_second") for k in ranks}
    shared = ", ".join(f"{k} ranks {float(v) / 1e9:.1f}" for k, v in keys.items() if v)
    cores = next((v for k, v in file.context.items() if k.endswith(": cores")), "?")
    return f"{file.context['cpu']}, {cores} cores" + (f"; copy bandwidth of all ranks together, GB/s: {shared}" if shared else "")


def scaling_table(rows, serial):
    def clock(row, key):
        s = speed(row, key, serial)
        return cell(row.metric(key), lambda value: seconds(value) + (f" ({times(s)})" if math.isfinite(s) else ""))

    return Table(["entry*", "ranks", *(c for _, c in CLOCKS), "bytes moved", "imbalance", "in time", "ranks a core"],
                 [[name(r.entry), Cell(str(r.ranks), r.ranks), *(clock(r, key) for key, _ in CLOCKS), cell(r.metric("bytes_moved"), amount),
                   *(cell(r.metric(key), digits) for key in ("imbalance", "compute_imbalance", "ranks_per_core"))] for r in rows])
