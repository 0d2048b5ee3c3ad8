"""SpGEMM by compression ratio: products for each non-zero of C, which says how much of the work is summing."""

import math

from matplotlib.lines import Line2D

from . import pictures as draw
from .results import grouped
from .words import Figure, Section, Table, cell, digits, label, name, percent, short, times, title

LIMIT = "limit_share"  # the metric of entries that know their limit: the time at the limit over the time it took


def compression(row):
    return row.problem.multiplications / row.result_nnz if row.result_nnz > 0 else math.nan


def by_compression(files):
    figures = []
    for file in files:
        rows = [r for r in file.rows if r.problem.operation == "spgemm" and r.ranked() and compression(r) > 0 and not (r.mpi and r.ranks > 1)]
        for kind, of in grouped(rows, lambda r: r.problem.kind()[:2]).items():
            if len({r.problem.matrix for r in of}) > 1:
                figures.append(figure(file, kind, of, len(files) > 1))
    if not figures:
        return []
    return [Section("compression", "SpGEMM by compression ratio",
                    "The compression ratio is the number of products for each non-zero of C. At 1 nothing is summed and writing C is all there is to do; "
                    "at 10 and more, most of the work is finding where a product belongs. Both axes are logarithmic.", figures)]


def figure(file, kind, rows, several):
    ratio = {r.problem.matrix: compression(r) for r in rows}
    by_entry = grouped(rows, lambda r: r.entry)
    limited = [r for r in rows if math.isfinite(r.metric(LIMIT))]
    told = [of[0].short for of in by_entry.values()]

    def paint(fig, narrow):
        axes = fig.subplots(2 if limited and narrow else 1, 2 if limited and not narrow else 1, squeeze=False).flatten()
        draw.place(fig, left=0.6, right=0.55 if narrow else draw.room(told) + 0.65, top=0.85, bottom=0.45 + (draw.legend_height(told) if narrow else 0),
                   wspace=0.2, hspace=0.6)
        handles = []
        for k, (entry, of) in enumerate(by_entry.items()):
            style = dict(linestyle="", marker=draw.MARKERS[k % 10], color=draw.SERIES[k % 10], markersize=5.5, fillstyle="none" if of[0].peer else "full")
            axes[0].plot([compression(r) for r in of], [r.gflops for r in of], **style)
            if limited:
                axes[1].plot([compression(r) for r in of], [100 * r.metric(LIMIT) for r in of], **style)
            handles.append(Line2D([], [], **style))
        for panel in axes:
            draw.log_axis(panel.xaxis, ratio.values(), draw.tick_number, most=3 if limited and not narrow else 5)
            panel.set_xlabel("compression ratio")
        names_above(axes[0], ratio, 0.12 if not narrow else 0.2)
        draw.log_axis(axes[0].yaxis, [r.gflops for r in rows], draw.tick_number, most=5)
        axes[0].text(-0.01, 1.03, "GFLOP/s", transform=axes[0].transAxes, fontsize=9, ha="right", va="bottom", color=draw.COLOURS["muted"])
        if limited:
            axes[1].text(0.0, 1.03, "percent of the limit", transform=axes[1].transAxes, fontsize=9, va="bottom", color=draw.COLOURS["muted"])
            axes[1].set_ylim(0, 105)
        width = fig.get_size_inches()[0]
        draw.legend(fig, handles, told, narrow, where=(1 - (draw.room(told) + 0.5) / width, 0.5))

    best = {m: max(of, key=lambda r: r.gflops) for m, of in grouped(rows, lambda r: r.problem.matrix).items()}
    steps = {m: [r for r in of if not r.peer] for m, of in grouped(rows, lambda r: r.problem.matrix).items()}
    ordered = sorted((m for m in ratio if steps[m]), key=ratio.get) or sorted(ratio, key=ratio.get)
    low, high = best[ordered[0]], best[ordered[-1]]
    see = (f"From {label(ordered[0])} ({digits(ratio[ordered[0]])} products a non-zero: {digits(low.gflops)} GFLOP/s by {low.short}) to "
           f"{label(ordered[-1])} ({digits(ratio[ordered[-1]])}: {digits(high.gflops)} by {high.short}).")
    heads = ["matrix*", "entry*", "compression", "GFLOP/s", "bandwidth", "vs library"] + (["of the limit"] if limited else [])
    table = Table(heads, [[name(label(r.problem.matrix)), name(r.entry, "code best" if best[r.problem.matrix] is r else "code"), cell(compression(r), digits),
                           cell(r.gflops, digits), cell(r.bandwidth_share, percent), cell(r.speedup_peer, times)]
                          + ([cell(r.metric(LIMIT), percent)] if limited else []) for r in rows]).without_empty_columns()
    height = 3.5 + (0 if not limited else 0.2)
    return Figure(title((*kind, "")) + (f" ({file.name})" if several else ""), see,
                  draw.picture(paint, height, height + draw.legend_height(told) + (2 if limited else 0),
                               says="GFLOP/s against the compression ratio; the table below has the numbers"), table)


def names_above(axes, ratio, least):
    """The names of the matrices, slanted, above their ratios; of names that would meet only the first."""
    low, high = (math.log10(v) for v in axes.get_xlim())
    last = -math.inf
    for matrix in sorted(ratio, key=ratio.get):
        place = (math.log10(ratio[matrix]) - low) / (high - low)
        axes.axvline(ratio[matrix], color=draw.COLOURS["grid"], linewidth=0.8, zorder=0)
        if place - last > least / 3:
            axes.text(place, 1.02, short(matrix, 14), transform=axes.transAxes, rotation=50, fontsize=8, ha="left", va="bottom", color=draw.COLOURS["muted"])
            last = place
