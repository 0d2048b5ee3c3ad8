#!/usr/bin/env python3
"""The table of tools/same-again.sh, in Markdown: `tools/same_again.py OUT RUNS`. Pairs are runs 1 and 2, 3 and 4, ...; what is slower is
compared with run 1."""

import math
import pathlib
import sys

from report import compare, results

LEAST = 0.02  # as tools/report.py has it


def pairs(out, old, new):
    """Of all operations: the pairs of rows of these two runs that are no controls."""
    found = []
    for path in sorted(out.glob(f"*-{old}.json")):
        other = out / path.name.replace(f"-{old}.json", f"-{new}.json")
        if other.exists():
            found += compare.compare(results.read(path), results.read(other), LEAST).pairs
    return [p for p in found if p.verdict != "control"]


def share(part, whole):
    return f"{len(part)} of {len(whole)} ({100 * len(part) / len(whole):.1f} %)" if whole else "none"


def line(what, of):
    """Of equal runs: what is called changed or unsteady, how far the later median lies, and how often outside of the earlier one's range."""
    moved = sorted(p.moved for p in of)
    within = [p for p in of if p.moved <= p.times_noise(p.old)]
    at = lambda share_of: f"{100 * moved[min(len(moved) - 1, int(share_of * len(moved)))]:.2f} %" if moved else ""
    return [what, share([p for p in of if p.verdict in ("faster", "slower")], of), share([p for p in of if p.unsteady()], of), share(within, of), at(0.5), at(0.9), at(1)]


def table(heads, rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def main(words):
    out, runs = pathlib.Path(words[0]), int(words[1])
    same = [p for run in range(1, runs, 2) for p in pairs(out, run, run + 1)]
    whole = [compare.paired(p.old, p.new, device=False) for p in same if p.what == "device"]
    of = lambda what, of_pairs: [p for p in of_pairs if p.what == what]
    for p in whole:
        p.verdict = "within the noise" if p.moved <= math.log1p(max(LEAST, p.noise)) else "faster"
    rows = [line(what, some) for what, some in (("device's time", of("device", same)), ("whole time, not host-bound", of("whole", whole + same)),
                                                ("whole time, host-bound", of("host-bound", whole))) if some]
    print(table(["equal runs: times of", "called changed", "unsteady", "inside the earlier ±", "moved by: median", "90 %", "most"], rows))
    slower = []
    for percent, least in ((5, 20e-6), (3, 100e-6)):
        told = [p for p in pairs(out, 1, f"slower_{percent}") if p.what == "device" and p.before > least and not p.unsteady()]
        if told:
            slower.append([f"{percent} % longer, above {1e6 * least:g} us", share([p for p in told if p.verdict == "slower"], told)])
    if slower:
        print("\n" + table(["the device is busy for", "called slower"], slower))


if __name__ == "__main__":
    main(sys.argv[1:])
