#!/usr/bin/env python3
"""What the runs of tools/same-again.sh say, in Markdown: `tools/same_again.py OUT`. Pairs are runs 1 and 2, 3 and 4, ...; what is slower is compared
with run 1."""

import math
import pathlib
import sys

from report import results, verdicts
from tables import source_of, table_of, text_of

LEAST = 0.02  # as tools/report.py has it


def pairs(out, old, new):
    """Of all operations: the pairs of rows of these two runs that are no controls."""
    found = []
    for path in sorted(out.glob(f"*-{old}.json")):
        other = out / path.name.replace(f"-{old}.json", f"-{new}.json")
        if other.exists():
            found += verdicts.compare(results.read(path), results.read(other), LEAST).pairs
    return [p for p in found if p.verdict != "control"]


def share(part, whole):
    return f"{len(part)} of {len(whole)} ({100 * len(part) / len(whole):.1f} %)"


def line(what, of):
    """Of equal runs: what is called changed or unsteady, how often the later median lies within the earlier one's range, and how far off."""
    moved = sorted(p.moved for p in of)
    within = [p for p in of if p.moved <= p.times_noise(p.old)]
    at = lambda share_of: f"{100 * moved[min(len(moved) - 1, int(share_of * len(moved)))]:.2f} %"
    return [what, share([p for p in of if p.verdict in ("faster", "slower")], of), share([p for p in of if p.unsteady()], of),
            share(within, of), share([m for m in moved if m > LEAST], of), at(0.5), at(0.9), at(1)]


def tables(out):
    """Both tables, and what they are of."""
    runs = max(int(path.stem.rpartition("-")[2]) for path in out.glob("*-[0-9].json"))
    same = [p for run in range(1, runs, 2) for p in pairs(out, run, run + 1)]
    whole = [verdicts.paired(p.old, p.new, device=False) for p in same if p.what == "device"]
    for p in whole:  # what would be said of them, by the controls' leave
        moved = "faster" if p.moved > math.log1p(max(LEAST, p.noise)) else "within the noise"
        p.verdict = "no verdict" if p.what == "host-bound" else "unsteady" if p.unsteady() else moved
    kinds = {"device's time": [p for p in same if p.what == "device"], "whole time, not host-bound": [p for p in whole + same if p.what == "whole"],
             "whole time, host-bound": [p for p in whole if p.what == "host-bound"]}
    lines = table_of(["equal runs: times of", "called changed", "unsteady", "inside the earlier \u00b1", f"moved by more than {100 * LEAST:g} %",
                      "by: median", "90 %", "most"], [line(what, of) for what, of in kinds.items() if of])
    slower = []
    for percent, least in ((5, 20e-6), (3, 100e-6)):
        told = [p for p in pairs(out, 1, f"slower_{percent}") if p.what == "device" and p.before > least and not p.unsteady()]
        if told:
            slower.append([f"{percent} % longer, above {1e6 * least:g} us", share([p for p in told if p.verdict == "slower"], told)])
    if slower:
        lines += ["", *table_of(["the device is busy for", "called slower"], slower)]
    of = same[0].old
    return text_of(lines, f"({runs} runs of {of.times.processes} processes; {source_of(of.file.context, of.file.machine())})")


if __name__ == "__main__":
    print(tables(pathlib.Path(sys.argv[1])), end="")
