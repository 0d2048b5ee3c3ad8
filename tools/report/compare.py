"""Two results files side by side: what got faster or slower beyond the noise.

A time is known by the 95 % confidence interval of its median. Two times differ beyond the noise when their intervals do not
meet (that happens to equal ones about once in two hundred times) and each median lies outside the quartiles of the other.
Where an entry was prepared several times (stages run --plans), half of what its plans lie apart is added to the interval on both sides, if
that is wider. Samples of one run know nothing of what differs between runs (clock rates, neighbours, where pages lie), so a difference must
also be larger than a share that one may set.
"""

import dataclasses
import math

from . import pictures as draw
from .results import grouped
from .words import Cell, Figure, Section, Table, cell, geometric_mean, label, name, percent, plural, seconds, short, times, title

MOST_IN_PICTURE = 40
VERDICTS = ("faster", "slower", "within the noise", "too few samples")


@dataclasses.dataclass
class Pair:
    """One entry on one problem in both files. `speed` is old over new: above 1 is faster."""

    old: object
    new: object
    verdict: str
    speed: float
    low: float  # of the speed-up, by the ends of both intervals
    high: float


def key(row):
    return (row.problem.kind(), row.problem.matrix, row.entry, row.ranks if row.mpi else 1)


def interval(row):
    """What the median is known to lie in. Plans of one entry that differ say more of that than the samples of all of them together."""
    times, spread = row.times, row.metric("plan_spread")
    if math.isnan(times.low) or not spread > 0:
        return times.low, times.high
    return min(times.low, times.median * (1 - spread / 2)), max(times.high, times.median * (1 + spread / 2))


def judge(old, new, least):
    speed = old.times.median / new.times.median
    before, after = interval(old), interval(new)
    if math.isnan(before[0]) or math.isnan(after[0]):
        return Pair(old, new, "too few samples", speed, math.nan, math.nan)
    low, high = before[0] / after[1], before[1] / after[0]
    verdict = "within the noise"
    if low > 1 and speed > 1 + least and new.times.q3 < old.times.median and new.times.median < old.times.q1:
        verdict = "faster"
    elif high < 1 and speed < 1 / (1 + least) and new.times.q1 > old.times.median and new.times.median > old.times.q3:
        verdict = "slower"
    return Pair(old, new, verdict, speed, low, high)


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
        text = ", ".join(f"{len(self.of(v))} {v}" for v in VERDICTS if self.of(v) or v in VERDICTS[:3])
        for rows, what in ((self.broken, "wrong or failed now"), (self.gone, "no longer timed"), (self.fresh, "new")):
            text += f", {len(rows)} {what}" if rows else ""
        return text


def compare(old, new, least):
    before, after = ({key(r): r for r in f.rows} for f in (old, new))
    both = [(before[k], after[k]) for k in before if k in after]
    bad = ("wrong", "failed")
    return Comparison(
        pairs=[judge(o, n, least) for o, n in both if o.times and n.times],
        broken=[(o, n) for o, n in both if o.status not in bad and n.status in bad],
        mended=[(o, n) for o, n in both if o.status in bad and n.status == "good"],
        gone=[r for k, r in before.items() if r.times and (k not in after or (after[k].times is None and after[k].status not in bad))],
        fresh=[r for k, r in after.items() if r.times and (k not in before or (before[k].times is None and before[k].status not in bad))])


def comparison_section(old, new, compared, least):
    lead = (f"Old: {old.name}, {old.context['date'][:10]}, sources {old.context['source_digest'][:12]}. New: {new.name}, {new.context['date'][:10]}, sources "
            f"{new.context['source_digest'][:12]}. {compared.summary().capitalize()}. Beyond the noise means: the 95 % confidence intervals of both medians "
            f"do not meet, each median lies outside the quartiles of the other, and they differ by more than {percent(least)}.")
    if old.machine() != new.machine() or old.context.get("cpus") != new.context.get("cpus"):
        lead += f" The machines differ ({old.machine()} and {new.machine()}): what is compared here are machines, not sources."
    elif old.launch() != new.launch():
        lead += f" One was launched in another way than the other (old{old.launch() or ', kernel by kernel'}; new{new.launch() or ', kernel by kernel'})."
    figures = [figure(kind, pairs) for kind, pairs in grouped(compared.pairs, lambda pair: pair.new.problem.kind()).items()]
    if compared.broken or compared.mended or compared.gone or compared.fresh:
        figures.append(changes(compared))
    return Section("comparison", "What got faster or slower", lead, figures)


def figure(kind, pairs):
    ordered = sorted(pairs, key=lambda p: p.speed, reverse=True)
    changed = [p for p in ordered if p.verdict in VERDICTS[:2]]
    drawn = ordered if len(ordered) <= MOST_IN_PICTURE else (changed or ordered)
    if len(drawn) > MOST_IN_PICTURE:
        drawn = sorted(sorted(drawn, key=lambda p: abs(math.log(p.speed)), reverse=True)[:MOST_IN_PICTURE], key=lambda p: p.speed, reverse=True)
    colours = {"faster": "good", "slower": "bad", "within the noise": "muted", "too few samples": "faint"}

    def paint(fig):
        names = [short(f"{short(p.new.problem.matrix, 12)}: {p.new.short}", 44) for p in drawn]
        axes = fig.subplots()
        draw.place(fig, left=draw.room(names) + 0.15, right=0.55, top=0.35, bottom=0.3)
        for place, pair in enumerate(drawn):
            colour = draw.COLOURS[colours[pair.verdict]]
            if math.isfinite(pair.low):
                axes.plot([pair.low, pair.high], [place, place], color=colour, linewidth=1.4, marker="|", markersize=6)
            axes.plot([pair.speed], [place], "o", color=colour, markersize=5)
            axes.text(1.02, place, times(pair.speed), transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        axes.axvline(1, color=draw.COLOURS["ink"], linewidth=1)
        draw.log_axis(axes.xaxis, [1, *(v for p in drawn for v in (p.low, p.high, p.speed))], lambda v: f"{v:.3g}x", most=5)
        draw.rows(names, axes)
        axes.set_title("slower  |  faster: old time over new")

    faster, slower = (sum(p.verdict == v for p in pairs) for v in VERDICTS[:2])
    see = (f"{faster} faster, {slower} slower of {len(pairs)}; geometric mean of the speed-ups {geometric_mean(p.speed for p in pairs):.3f}x."
           + (f" Drawn: the {len(drawn)} that changed most." if len(drawn) < len(pairs) else ""))
    return Figure(title(kind), see, draw.picture(paint, 0.75 + 0.21 * len(drawn), says="Old time over new with its interval; the table below has the numbers"),
                  table(ordered))


def table(pairs):
    marks = {"faster": "best", "slower": "bad"}
    return Table(["matrix*", "entry*", "old", "new", "speed-up", "between", "verdict*"],
                 [[name(label(p.new.problem.matrix)), name(p.new.entry + (f" on {p.new.ranks}" if p.new.mpi else "")), cell(p.old.times.median, seconds),
                   cell(p.new.times.median, seconds), cell(p.speed, lambda v: f"{v:.3f}x"),
                   Cell(f"{p.low:.3f}x – {p.high:.3f}x" if math.isfinite(p.low) else "", p.low), Cell(p.verdict, None, marks.get(p.verdict, "dim"))] for p in pairs])


def changes(compared):
    rows = []
    for what, mark, of in (("wrong or failed now", "bad", [n for _, n in compared.broken]), ("good again", "best", [n for _, n in compared.mended]),
                           ("no longer timed", "dim", compared.gone), ("timed only in the new file", "dim", compared.fresh)):
        rows += [[Cell(what, None, mark), Cell(title(r.problem.kind())), name(label(r.problem.matrix)), name(r.entry + (f" on {r.ranks}" if r.mpi else "")),
                  Cell(r.reason)] for r in of]
    return Figure("In one file only, or with another outcome", f"{plural(len(rows), 'row')} without a time in both files.", None,
                  Table(["change*", "multiplication*", "matrix*", "entry*", "reason*"], rows))
