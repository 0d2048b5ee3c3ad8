"""What got faster or slower from one results file to another, by verdicts.py."""

import math

from . import pictures as draw
from .results import grouped
from .verdicts import VERDICTS, differences
from .words import Cell, Figure, Section, Table, cell, geometric_mean, label, name, percent, plural, seconds, short, times, title

MOST_IN_PICTURE = 40


def comparison_section(old, new, compared, least):
    controls = [math.expm1(p.moved) for p in compared.of("control")]
    lead = (f"Old: {old.name}, {old.context['date'][:10]}, sources {old.context['source_digest'][:12]}. New: {new.name}, {new.context['date'][:10]}, sources "
            f"{new.context['source_digest'][:12]}. {compared.summary().capitalize()}. Changed is what moved by more than the controls of its kind (entries whose "
            f"code is the same in both), than what is known of both times, and than {percent(least)}. "
            + (f"There are {plural(len(controls), 'control')}, which moved by up to {percent(max(controls))}." if controls else
               "There are no controls: files of one process each have no verdict."))
    for told in differences(old, new):
        lead += f" {told[0].upper()}{told[1:]}: that is compared, too."
    figures = [figure(kind, pairs) for kind, pairs in grouped(compared.pairs, lambda pair: pair.new.problem.kind()).items()]
    if compared.broken or compared.mended or compared.gone or compared.fresh:
        figures.append(changes(compared))
    return Section("comparison", "What got faster or slower", lead, figures)


def figure(kind, pairs):
    ordered = sorted(pairs, key=lambda p: p.speed, reverse=True)
    changed = [p for p in ordered if p.verdict in VERDICTS[:2]]
    drawn = ordered if len(ordered) <= MOST_IN_PICTURE else (changed or ordered)
    if len(drawn) > MOST_IN_PICTURE:
        drawn = sorted(sorted(drawn, key=lambda p: p.moved, reverse=True)[:MOST_IN_PICTURE], key=lambda p: p.speed, reverse=True)
    colours = {"faster": "good", "slower": "bad", "within the noise": "muted"}

    def paint(fig):
        names = [short(f"{short(p.new.problem.matrix, 12)}: {p.new.short}", 44) for p in drawn]
        axes = fig.subplots()
        draw.place(fig, left=draw.room(names) + 0.15, right=0.55, top=0.35, bottom=0.3)
        for place, pair in enumerate(drawn):
            colour = draw.COLOURS[colours.get(pair.verdict, "faint")]
            if math.isfinite(pair.reach):
                axes.plot([pair.speed * math.exp(way * pair.reach) for way in (-1, 1)], [place, place], color=colour, linewidth=1.4, marker="|", markersize=6)
            axes.plot([pair.speed], [place], "o", color=colour, markersize=5)
            axes.text(1.02, place, times(pair.speed), transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        axes.axvline(1, color=draw.COLOURS["ink"], linewidth=1)
        draw.log_axis(axes.xaxis, [1, *(p.speed for p in drawn)], lambda v: f"{v:.3g}x", most=5)
        draw.rows(names, axes)
        axes.set_title("slower  |  faster: old time over new")

    faster, slower = (sum(p.verdict == v for p in pairs) for v in VERDICTS[:2])
    see = (f"{faster} faster, {slower} slower of {len(pairs)}; geometric mean of the speed-ups {geometric_mean(p.speed for p in pairs):.3f}x."
           + (f" Drawn: the {len(drawn)} that changed most." if len(drawn) < len(pairs) else ""))
    return Figure(title(kind), see, draw.picture(paint, 0.75 + 0.21 * len(drawn), says="Old time over new, and what it has to move by; the table below has the numbers"),
                  table(ordered))


def table(pairs):
    marks = {"faster": "best", "slower": "bad"}
    return Table(["matrix*", "entry*", "time of*", "old", "new", "speed-up", "needs", "verdict*"],
                 [[name(label(p.new.problem.matrix)), name(p.new.entry + (f" on {p.new.ranks}" if p.new.mpi else "")), Cell("the device" if p.what == "device" else "all"),
                   cell(p.before, seconds), cell(p.after, seconds), cell(p.speed, lambda v: f"{v:.3f}x"),
                   Cell(percent(math.expm1(p.reach)) if math.isfinite(p.reach) else "", p.reach), Cell(p.verdict, None, marks.get(p.verdict, "dim"))] for p in pairs])


def changes(compared):
    rows = []
    for what, mark, of in (("wrong or failed now", "bad", [n for _, n in compared.broken]), ("good again", "best", [n for _, n in compared.mended]),
                           ("no longer timed", "dim", compared.gone), ("timed only in the new file", "dim", compared.fresh)):
        rows += [[Cell(what, None, mark), Cell(title(r.problem.kind())), name(label(r.problem.matrix)), name(r.entry + (f" on {r.ranks}" if r.mpi else "")),
                  Cell(r.reason)] for r in of]
    return Figure("In one file only, or with another outcome", f"{plural(len(rows), 'row')} without a time in both files.", None,
                  Table(["change*", "multiplication*", "matrix*", "entry*", "reason*"], rows))
