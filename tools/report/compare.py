"""Two results files side by side: what got faster or slower.

Of a GPU's rows the time for which the device was busy is compared, where both files know it: the rest is the host's, and moves a whole process.
A row is changed where its time moved by more than three things: what the controls moved by, whose code is the same in both files; what is known
of both times (the spread of several processes, or of the samples of one); and a share that one may set. Without controls, files of one process
each have no verdict.
"""

import dataclasses
import math
import re

from . import pictures as draw
from .results import grouped
from .words import Cell, Figure, Section, Table, cell, geometric_mean, label, name, percent, plural, seconds, short, times, title

MOST_IN_PICTURE = 40
FEWEST_CONTROLS = 5
UNSTEADY = 0.05  # as ResultRow::is_unsteady has it
VERDICTS = ("faster", "slower", "within the noise", "unsteady", "no verdict", "control")


@dataclasses.dataclass
class Pair:
    """One entry on one problem in both files. `speed` is old over new: above 1 is faster."""

    old: object
    new: object
    what: str  # "device", "whole" or "host-bound": the whole of a row whose device has little to do
    before: float
    after: float
    noise: float  # of `speed`, as a share of it
    is_control: bool
    verdict: str = ""
    reach: float = math.nan  # a share within which `speed` says nothing, as a logarithm

    @property
    def speed(self):
        return self.before / self.after

    @property
    def moved(self):
        return abs(math.log(self.speed))

    def unsteady(self):
        return max(self.times_noise(self.old), self.times_noise(self.new)) > UNSTEADY

    def times_noise(self, row):
        return row.times.busy.noise if self.what == "device" else row.times.noise


def key(row):
    return (row.problem.kind(), row.problem.matrix, row.entry, row.ranks if row.mpi else 1)


def paired(old, new, controls=None, device=True):
    """By the device's times where both are known, unless `device` is false."""
    rows = (old, new)
    device = device and not any(math.isnan(row.times.busy.median) for row in rows)
    times_of = [row.times.busy if device else row.times for row in rows]
    return Pair(old, new, "device" if device else "host-bound" if any(row.is_host_bound() for row in rows) else "whole", *(t.median for t in times_of),
                math.hypot(*(t.noise for t in times_of)), new.peer or bool(controls and controls.search(new.entry)))


def judge(pairs, least):
    """Fills the verdicts of pairs that are told by one kind of time."""
    controls = [p.moved for p in pairs if p.is_control and not p.unsteady()]
    controlled = len(controls) >= FEWEST_CONTROLS
    several = all(row.times.processes > 1 for p in pairs for row in (p.old, p.new))
    for p in pairs:
        p.reach = max(math.log1p(least), math.log1p(p.noise), max(controls) if controlled else 0)
        if p.is_control:
            p.verdict = "control"
        elif p.what == "host-bound" or math.isnan(p.noise) or not (controlled or several):
            p.verdict = "no verdict"
        elif p.unsteady():
            p.verdict = "unsteady"
        else:
            p.verdict = "within the noise" if p.moved <= p.reach + 1e-9 else "faster" if p.speed > 1 else "slower"


@dataclasses.dataclass
class Comparison:
    pairs: list
    broken: list  # (old, new): good before, wrong or failed now
    mended: list
    gone: list  # rows timed in the old file alone
    fresh: list  # rows timed in the new file alone

    def of(self, verdict):
        return [p for p in self.pairs if p.verdict == verdict]

    def summary(self):
        text = ", ".join(f"{len(self.of(v))} {v if v != 'control' else 'controls'}" for v in VERDICTS if self.of(v) or v in VERDICTS[:3])
        for rows, what in ((self.broken, "wrong or failed now"), (self.gone, "no longer timed"), (self.fresh, "new")):
            text += f", {len(rows)} {what}" if rows else ""
        return text


def compare(old, new, least, controls=""):
    """`controls`: a pattern of entries whose code is the same in both, beside libraries."""
    before, after = ({key(r): r for r in f.rows} for f in (old, new))
    both = [(before[k], after[k]) for k in before if k in after]
    bad = ("wrong", "failed")
    pairs = [paired(o, n, controls and re.compile(controls)) for o, n in both if o.times and n.times]
    for alike in grouped(pairs, lambda p: (p.what, p.new.problem.operation)).values():
        judge(alike, least)
    return Comparison(
        pairs=pairs,
        broken=[(o, n) for o, n in both if o.status not in bad and n.status in bad],
        mended=[(o, n) for o, n in both if o.status in bad and n.status == "good"],
        gone=[r for k, r in before.items() if r.times and (k not in after or (after[k].times is None and after[k].status not in bad))],
        fresh=[r for k, r in after.items() if r.times and (k not in before or (before[k].times is None and before[k].status not in bad))])


def differences(old, new):
    """What else is not the same in both files, in words."""
    told = []
    for what, of in (("machine", lambda f: f.machine()), ("number of processors", lambda f: f.context.get("cpus")), ("driver", lambda f: f.context.get("gpu_driver")),
                     ("compiler", lambda f: f.context.get("compiler")), ("way of launching", lambda f: f.launch() or ", kernel by kernel")):
        if of(old) != of(new):
            told.append(f"the {what} differs ({str(of(old)).lstrip(', ')} and {str(of(new)).lstrip(', ')})")
    return told


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
