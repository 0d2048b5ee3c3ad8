"""The beginning of the page: what ran where, what went wrong, and each multiplication in a line."""

import dataclasses
import math
import statistics

from .ladder import ladder_rows
from .results import STATUSES, grouped
from .words import Cell, Figure, Section, Table, cell, count, geometric_mean, label, name, plural, seconds, times, title


def numbers_of(file):
    """"36 good, 0 wrong, 0 failed, 9 skipped"."""
    simulated = sum(r.simulated and r.status == "good" for r in file.rows)
    return (", ".join(f"{file.count(status)} {status}" for status in STATUSES)
            + (f"; {simulated} of the good ran on the executor: checked, not timed" if simulated else ""))


@dataclasses.dataclass
class Card:
    """What ran in one place with one build: what its files have in common, and the files."""

    title: str
    facts: list  # of (name, value)
    runs: list  # of (summary, file)


def cards(files):
    """A card for each machine and build."""
    return [card(of) for of in grouped(files, lambda file: file.build()).values()]


def card(files):
    c = files[0].context
    facts = [("machine", f"{c['cpu']}, {plural(c.get('cpus', '?'), 'processor')}, {c.get('memory', '?')}"), ("GPU", c["gpu"])]
    if "gpu_sms" in c:
        facts.append(("GPU's copy bandwidth", bandwidths(files, "gpu_copy_bandwidth_bytes_per_second")))
    if "copy_bandwidth_bytes_per_second" in c:
        facts.append(("copy bandwidth", bandwidths(files, "copy_bandwidth_bytes_per_second")))
    facts += [("compiler", f"{c.get('compiler', '?')}, backend {c['backend']}"), ("sources", c["source_digest"][:12])]
    if len(files) == 1:
        return Card(files[0].name, [*facts, ("when", when(files[0])), ("results", numbers_of(files[0]))], [("command and all else", files[0])])
    return Card(files[0].machine(), facts, [(f"{file.name}: {when(file)}; {numbers_of(file)}", file) for file in files])


def when(file):
    return file.context["date"].replace("T", " ").replace("Z", " UTC")


def bandwidths(files, name):
    """"4.13 TB/s", or from the lowest to the highest where runs measured different ones."""
    ends = [f"{count(f(float(file.context[name]) for file in files if name in file.context))}B/s" for f in (min, max)]
    return " to ".join(dict.fromkeys(ends))


def troubles(files):
    """A section of what is wrong or failed; nothing where all is well."""
    bad = [r for f in files for r in f.rows if r.status in ("wrong", "failed")]
    if not bad:
        return []
    rows = [[Cell(r.status, None, "bad"), Cell(title(r.problem.kind())), name(label(r.problem.matrix)), name(r.entry), Cell(r.reason), Cell(r.file.name)] for r in bad]
    table = Table(["outcome*", "multiplication*", "matrix*", "entry*", "why*", "file*"], rows)
    return [Section("troubles", "Wrong or failed", f"{plural(len(bad), 'result')} did not pass. What is wrong has no time and is in no picture below.",
                    [Figure("", "The reason names the first element that is wrong, or the call that failed.", None, table)])]


def at_a_glance(files):
    """One line a kind of multiplication."""
    lines = [line(file, kind, [ladder_rows(of) for of in grouped(rows, lambda r: r.problem.matrix).values()], len(files) > 1)
             for file in files for kind, rows in grouped([r for r in file.rows if r.ranked()], lambda r: r.problem.kind()).items()]
    if not lines:
        return []
    heads = ["multiplication*", "matrices", "fastest step*", "its time", "vs first", "vs library", "wins"]
    see = ("The step that is fastest on most matrices, and its median time there. Speeds are geometric means over the matrices: of the fastest step over "
           "the first, and over the fastest library. Wins: matrices on which a step beats every library.")
    return [Section("glance", "At a glance", "", [Figure("", see, None, Table(heads, lines).without_empty_columns())])]


def line(file, kind, problems, several):
    best, gains, ratios = [], [], []
    for rows in problems:
        if not (steps := [r for r in rows if not r.peer]):
            continue
        fastest = min(steps, key=lambda r: r.times.median)
        best.append(fastest)
        gains.append(steps[0].times.median / fastest.times.median)
        if libraries := [r.times.median for r in rows if r.peer]:
            ratios.append(min(libraries) / fastest.times.median)
    entries = grouped(best, lambda r: r.entry)
    often = max(entries, key=lambda e: len(entries[e]), default="")
    took = statistics.median_high(r.times.median for r in entries[often]) if often else math.nan
    wins = sum(r > 1 for r in ratios)
    return [Cell(title(kind) + file.launch() + (f" ({file.name})" if several else "")), Cell(str(len(problems)), len(problems)), name(often),
            cell(took, seconds), cell(geometric_mean(gains), times), cell(geometric_mean(ratios), times),
            Cell(f"{wins} of {len(ratios)}" if ratios else "", wins if ratios else math.nan)]
