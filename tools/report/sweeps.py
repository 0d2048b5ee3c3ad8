"""Time over a parameter of an entry: what `stages run --set ENTRY:NAME=VALUE,..` measured, beside what the entry's own rule took."""

import math

from . import pictures as draw
from .results import grouped
from .words import Cell, Figure, Section, Table, cell, label, name, seconds, short, times, title, whole

LEAD = ("A line for each multiplication; lower is faster. The ring is the value that the entry's own rule took. Axes are logarithmic.")


def values_of(entry):
    """("07_spmm/split_rows", {"chunk": 64}) of "07_spmm/split_rows:chunk=64"."""
    base, _, values = entry.partition(":")
    return base, {of: int(value) for of, _, value in (pair.partition("=") for pair in values.split(",") if pair)}


def sweeps(files):
    """A figure for each parameter of an entry, in each file."""
    figures = []
    for file in files:
        ranked = [r for r in file.rows if r.ranked()]
        swept = {}  # {(entry, parameter): {(problem, the other values): {value: row}}}
        for row in ranked:
            base, values = values_of(row.entry)
            for parameter, value in values.items():
                others = ",".join(f"{of}={at}" for of, at in values.items() if of != parameter)
                swept.setdefault((base, parameter), {}).setdefault((row.problem, others), {})[value] = row
        for (base, parameter), lines in swept.items():
            by_rule = {(r.problem, ""): r for r in ranked if r.entry == base and math.isfinite(r.metric(parameter))}
            figures.append(figure(base, parameter, lines, by_rule, file.name if len(files) > 1 else ""))
    return [Section("sweeps", "Over a parameter", LEAD, figures, "parameter")] if figures else []


def figure(base, parameter, lines, by_rule, file):
    ruled = {key: (by_rule[key].metric(parameter), by_rule[key]) for key in lines if key in by_rule}
    points = {key: sorted({value: r.times.median for value, r in [*of.items(), *([ruled[key]] if key in ruled else [])]}.items())
              for key, of in lines.items()}
    told = [", ".join(filter(None, (short(problem.matrix, 18), problem.options, others))) for problem, others in lines]

    def paint(fig):
        axes = fig.subplots()
        draw.place(fig, left=0.6, right=draw.legend_room(told), top=0.15, bottom=0.45)
        for k, (key, words) in enumerate(zip(lines, told)):
            colour = draw.SERIES[k % len(draw.SERIES)]
            axes.plot(*zip(*points[key]), color=colour, marker=draw.MARKERS[k % len(draw.MARKERS)], markersize=4, linewidth=1.5, label=words)
            if key in ruled:
                axes.plot([ruled[key][0]], [ruled[key][1].times.median], "o", markersize=11, markerfacecolor="none", markeredgecolor=colour)
        draw.log_axis(axes.xaxis, [value for of in points.values() for value, _ in of], draw.tick_number, most=8)
        draw.log_axis(axes.yaxis, [time for of in points.values() for _, time in of], draw.tick_time)
        axes.set_xlabel(parameter)
        draw.legend(fig, *axes.get_legend_handles_labels())

    rows = []
    for key, of in lines.items():
        best = min(of.values(), key=lambda r: r.times.median)
        for value, r in sorted([*of.items(), *([ruled[key]] if key in ruled else [])], key=lambda pair: pair[0]):
            gain = ruled[key][1].times.median / r.times.median if key in ruled else math.nan
            rows.append([name(label(r.problem.matrix)), Cell(title(r.problem.kind())), Cell(key[1]), whole(int(value)),
                         cell(r.times.median, seconds, "best" if r is best else ""), cell(gain, times), Cell("" if r in of.values() else "the rule")])
    table = Table(["matrix*", "multiplication*", "with*", parameter, "time", "vs rule", "chosen by*"], rows).without_empty_columns()
    return Figure(f"{parameter} of {base}" + (f" ({file})" if file else ""), what_to_see(parameter, lines, ruled),
                  draw.picture(paint, 2.8, says=f"Time over {parameter}; the table below has the numbers"), table)


def what_to_see(parameter, lines, ruled):
    """How far the rule is from the best value, where that is furthest."""
    gains = {key: ruled[key][1].times.median / min(r.times.median for r in of.values()) for key, of in lines.items() if key in ruled}
    if not gains:
        return "The entry's own rule was not timed."
    key = max(gains, key=gains.get)
    value = min(lines[key], key=lambda v: lines[key][v].times.median)
    problem = key[0]
    return (f"The rule is furthest from the best on {label(problem.matrix)}{', ' if problem.options else ''}{problem.options}: {parameter} = {value} is "
            f"{times(gains[key])} as fast as its {ruled[key][0]:.0f}.")
