"""How the page opens where a run showed every step: the table of steps, and it as a picture."""

import math

from . import pictures as draw
from .words import Cell, Figure, Section, Table, name, seconds, short

SEE = ("A line a step, from its plainest entry (ring) to its best (dot); further left is faster. Blue: measured here, on the matrix "
       "that the table names. Grey: from the project's records, on another machine and mostly on another matrix; so compare within a colour only. "
       "Checked: the kernels ran on the CPU's executor, which checks them and times nothing.")
BAD = ("WRONG", "FAILED")
HEADS = ["step*", "plainest entry, best entry*", "time here", "time in the records"]


def opening(files):
    """A section; none where no file holds a run through all steps."""
    return [Section(f"steps{k or ''}", "The steps", "", [Figure("", SEE, drawing(file), table(file))])
            for k, file in enumerate([f for f in files if f.steps])]


def table(file):
    def cells(line):
        if line.missing:
            return [Cell(line.missing, None, "dim"), *[Cell("")] * (len(HEADS) - 2)]
        both = (line.plainest, line.best)
        mark = "bad" if line.best.outcome in BAD else "" if math.isfinite(line.best.seconds) else "dim"
        return [name(arrow(t.entry for t in both)), Cell(arrow(t.outcome for t in both), line.best.seconds, mark,
                                                         f"{line.options}, {short(line.matrix)}"),
                Cell(arrow(seconds(t.recorded_seconds) for t in both if math.isfinite(t.recorded_seconds)), line.best.recorded_seconds, "",
                     line.record)]

    return Table(HEADS, [[name(line.step), *cells(line)] for line in file.steps])


def arrow(ends):
    """"from → to", and once what is the same."""
    return " \u2192 ".join(dict.fromkeys(ends))


def drawing(file):
    lines = file.steps
    times = [t for line in lines for time in (line.plainest, line.best) for t in (time.seconds, time.recorded_seconds) if math.isfinite(t)]
    if not times:
        return None
    labels = ["measured here", "from the records"]

    def paint(figure):
        texts = [line.step for line in lines]
        axes = figure.add_subplot()
        draw.place(figure, left=draw.room(texts) + 0.15, right=draw.legend_room(labels), top=0.1, bottom=0.45)
        draw.log_axis(axes.xaxis, times, draw.tick_time, pad=0.1, most=8)
        handles = {}
        for k, line in enumerate(lines):
            for offset, colour, kind, label in ((-0.16, draw.COLOURS["accent"], "seconds", labels[0]),
                                                (0.18, draw.COLOURS["faint"], "recorded_seconds", labels[1])):
                ends = [getattr(time, kind) for time in (line.plainest, line.best)]
                known = [t for t in ends if math.isfinite(t)]
                if not known:
                    text = line.missing and "left out" or line.best.outcome
                    if kind == "seconds":
                        axes.text(axes.get_xlim()[0] * 1.15, k + offset, text, va="center", fontsize=8.5, color=draw.COLOURS["muted"])
                    continue
                axes.plot(ends, [k + offset] * 2, color=colour, linewidth=2.2)
                axes.plot(ends[:1], [k + offset], marker="o", markersize=6, markerfacecolor="none", markeredgecolor=colour, linestyle="none")
                handles[label] = axes.plot(ends[1:], [k + offset], marker="o", markersize=6, color=colour, linestyle="none")[0]
        axes.set_yticks(range(len(lines)), texts)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlabel("time of one product")
        axes.grid(axis="y", visible=False)
        if handles:
            draw.legend(figure, list(handles.values()), list(handles))

    says = "; ".join(f"{line.step}: {line.missing or f'{line.plainest.entry} {line.plainest.outcome}, {line.best.entry} {line.best.outcome}'}" for line in lines)
    return draw.picture(paint, 0.9 + 0.42 * len(lines), says=says)
