"""Two results files side by side: what got faster or slower.

Of a GPU's rows the time for which the device was busy is compared, where both files know it: the rest is the host's, and moves a whole process.
A row is changed where its time moved by more than three things: what the five controls moved by whose times are nearest, their code being the same
in both files (libraries, steps that did not change); what is known of both medians (by several processes, or by the samples of one); and a share
that one may set. Without controls, files of one process each have no verdict.
"""

import dataclasses
import math
import re

from .results import grouped

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


def same_code(old, new):
    """The steps whose sources, and the headers that kernels include, are the same in both files, as the compiler is: so is their code. None where
    all are: then something else is asked about than a change of code. What sends messages lies elsewhere: no entry on ranks is a control."""
    if any(old.context.get(what) != new.context.get(what) for what in ("compiler", "flags", "gpu_runtime")):
        return set()
    before, after = (dict(word.split("=", 1) for word in f.context.get("code", "").split()) for f in (old, new))
    same = {step for step in before if before[step] == after.get(step)}
    return set() if same == before.keys() else same


def known(times, noise):
    """How well a median is known, as a share of it. Of several processes `noise` is where the next one's lies: sqrt(1 + 1/n) of what one varies by,
    and the median of n varies by sqrt(pi/2n)."""
    return noise * math.sqrt(math.pi / 2 / (times.processes + 1)) if times.processes > 1 else noise


def paired(old, new, is_control=lambda row: row.peer, device=True):
    """By the device's times where both are known, unless `device` is false."""
    rows = (old, new)
    device = device and not any(math.isnan(row.times.busy.median) for row in rows)
    times_of = [row.times.busy if device else row.times for row in rows]
    return Pair(old, new, "device" if device else "host-bound" if any(row.is_host_bound() for row in rows) else "whole", *(t.median for t in times_of),
                math.hypot(*(known(row.times, t.noise) for row, t in zip(rows, times_of))), is_control(new))


def judge(pairs, least):
    """Fills the verdicts of pairs that are told by one kind of time."""
    controls = [p for p in pairs if p.is_control and not p.unsteady()]
    controlled = len(controls) >= FEWEST_CONTROLS
    several = all(row.times.processes > 1 for p in pairs for row in (p.old, p.new))
    for p in pairs:
        nearest = sorted(controls, key=lambda c: abs(math.log(c.before / p.before)))[:FEWEST_CONTROLS]  # short kernels move more
        p.reach = max(math.log1p(least), math.log1p(p.noise), *(c.moved for c in nearest))
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
    """`controls`: a pattern of entries whose code is the same in both, beside libraries and steps that did not change."""
    same = same_code(old, new)
    is_control = lambda row: row.peer or (row.stage in same and not row.mpi) or bool(controls and re.search(controls, row.entry))
    before, after = ({key(r): r for r in f.rows} for f in (old, new))
    both = [(before[k], after[k]) for k in before if k in after]
    bad = ("wrong", "failed")
    pairs = [paired(o, n, is_control) for o, n in both if o.times and n.times]
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
    said = lambda name: lambda f: f.context.get(name)
    cache = lambda f: "cold" if re.search(r"--cache[= ]cold", f.context["command"]) else "hot"
    for what, of in (("machine", lambda f: f.machine()), ("number of processors", said("cpus")), ("driver", said("gpu_driver")),
                     ("driver's version", said("gpu_driver_version")), ("version of cuSPARSE", said("cusparse")), ("version of cuBLAS", said("cublas")),
                     ("compiler", said("compiler")), ("way of launching", lambda f: f.launch() or ", kernel by kernel"),
                     ("state of the caches", cache)):
        if of(old) != of(new) and None not in (of(old), of(new)):
            told.append(f"the {what} differs ({str(of(old)).lstrip(', ')} and {str(of(new)).lstrip(', ')})")
    return told
