"""The roofline: what the bytes of the stated model and the measured bandwidth would allow, and what was reached."""

import math

from matplotlib.lines import Line2D

from . import pictures as draw
from .results import grouped
from .words import Cell, Figure, OPERATION_NAMES, Section, Table, amount, cell, digits, label, name, of_copy, plural

REACH = 1e3  # how many times the operations per byte at the left edge of a picture those at its right are, at most
MARKS = {operation: (draw.MARKERS[k], draw.SERIES[k]) for k, operation in enumerate(OPERATION_NAMES)}


def rooflines(files):
    rows = [r for file in files for r in file.rows if r.ranked() and r.model_bytes > 0 and r.operations > 0 and math.isfinite(r.bandwidth()) and not (r.mpi and r.ranks > 1)]
    figures = [figure(ran_on, of) for ran_on, of in grouped(rows, device).items() if len(of) > 2]
    if not figures:
        return []
    return [Section("roofline", "Roofline",
                    "The line is the measured copy bandwidth times the operations per byte of the stated model, a band where files measured different ones. "
                    "Sparse products are far left of any arithmetic limit, so no such limit is drawn. A mark above the line had its data in a cache: "
                    "model bytes are counted once.", figures)]


def device(row):
    """The name of what a row ran on: the share of the bandwidth is a share of the GPU's, or of the host's."""
    context = row.file.context
    on_gpu = math.isclose(row.bandwidth(), float(context.get("gpu_copy_bandwidth_bytes_per_second", 0)), rel_tol=0.01)
    return context["gpu" if on_gpu else "cpu"]


def intensity(row):
    return row.operations / row.model_bytes


def compression(row):
    """Of a sparse product: how many products are summed for each non-zero of C."""
    return row.problem.multiplications / row.result_nnz if row.problem.operation == "spgemm" and row.result_nnz > 0 else math.nan


def figure(title, rows):
    by_problem = grouped(rows, lambda r: (r.file.name, r.problem))
    best = [min(of, key=lambda r: r.times.median) for of in by_problem.values()]
    bandwidths = [r.bandwidth() for r in rows]
    least, most = min(bandwidths), max(bandwidths)
    several = len({r.file.name for r in rows}) > 1

    def paint(fig):
        axes = fig.subplots()
        operations = list(dict.fromkeys(r.problem.operation for r in rows))
        told = [OPERATION_NAMES[o] for o in operations] + ["not the fastest"]
        draw.place(fig, left=0.6, right=draw.legend_room(told), top=0.3, bottom=0.45)
        axes.plot([intensity(r) for r in rows], [r.gflops for r in rows], ".", color=draw.COLOURS["faint"], markersize=4)
        for operation in operations:
            of = [r for r in best if r.problem.operation == operation]
            marker, colour = MARKS[operation]
            axes.plot([intensity(r) for r in of], [r.gflops for r in of], marker, color=colour, markersize=6)
        xs = [intensity(r) for r in rows]
        # Forms that are hopelessly slow would squeeze the rest to the top, and matrices with more rows than non-zeros to the right.
        highest = max(max(r.gflops for r in rows), most / 1e9 * max(xs))
        draw.log_axis(axes.xaxis, [max(min(xs), max(xs) / REACH), max(xs)], draw.tick_number, most=6)
        draw.log_axis(axes.yaxis, [max(min(r.gflops for r in rows), highest / 5e3), highest], draw.tick_number, most=5)
        low, high = axes.get_xlim()
        if most > 1.02 * least:
            axes.fill_between([low, high], [least / 1e9 * low, least / 1e9 * high], [most / 1e9 * low, most / 1e9 * high], color=draw.COLOURS["shade"])
        for bandwidth in (least, most) if most > 1.02 * least else (most,):
            axes.plot([low, high], [bandwidth / 1e9 * low, bandwidth / 1e9 * high], color=draw.COLOURS["vendor"], linewidth=1.5)
        axes.set_xlabel("operations per byte of the model")
        axes.text(0.0, 1.03, "GFLOP/s", transform=axes.transAxes, fontsize=9, va="bottom", ha="center", color=draw.COLOURS["muted"])
        handles = [Line2D([], [], linestyle="", marker=MARKS[o][0], color=MARKS[o][1], markersize=6) for o in operations]
        handles.append(Line2D([], [], linestyle="", marker=".", color=draw.COLOURS["faint"], markersize=6))
        draw.legend(fig, handles, told)

    shown = [r for r in best if intensity(r) * REACH >= max(map(intensity, rows))]
    top = max(shown or best, key=lambda r: r.bandwidth_share)
    see = f"Nearest to the line, or highest above it: {top.short} on {label(top.problem.matrix)}, {of_copy(top.bandwidth_share)} (a copy: {amount(top.bandwidth())}/s)."
    if len(shown) < len(best):
        see += f" {plural(len(best) - len(shown), 'multiplication')} too far left for the picture {'is' if len(best) - len(shown) == 1 else 'are'} in the table."
    table = Table(["operation*", "matrix*", "entry*", "operations per byte", "products a result", "GFLOP/s", "of the line"] + (["file*"] if several else []),
                  [[Cell(OPERATION_NAMES[r.problem.operation] + (f", {r.problem.options}" if r.problem.options else "")), name(label(r.problem.matrix)), name(r.entry),
                    cell(intensity(r), digits), cell(compression(r), digits), cell(r.gflops, digits), cell(r.bandwidth_share, of_copy)]
                   + ([name(r.file.name)] if several else []) for r in best]).without_empty_columns()
    table.caption = "the fastest entry of each multiplication"
    return Figure(title, see,
                  draw.picture(paint, 3.6, says="GFLOP/s against operations per byte; the table below has the numbers"), table)
