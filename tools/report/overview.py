"""The beginning of the page: what ran where, what went wrong, and each multiplication in a line."""

import collections
import dataclasses
import math

from .ladder import ladder_rows
from .results import STATUSES, grouped
from .words import Cell, Figure, Section, Table, cell, count, geometric_mean, label, name, plural, times, title


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
    heads = ["multiplication*", "matrices", "step that is fastest on most*", "vs first", "vs vendor", "wins"]
    see = ("All figures of a line are of the one step that it names, over the matrices on which that was timed: geometric means of its speed over the "
           "first step (below its name) that was timed on all of these, and over the fastest vendor library of each. Wins: matrices on which it beats all of these.")
    return [Section("glance", "At a glance", "", [Figure("", see, None, Table(heads, lines).without_empty_columns())])]


def line(file, kind, problems, several):
    """`problems`: of each matrix its rows."""
    steps = [{r.entry: r for r in rows if not r.peer} for rows in problems]
    fastest = collections.Counter(min(of.values(), key=lambda r: r.times.median).entry for of in steps if of)
    entry = max(fastest, key=fastest.get, default="")
    of_it = [(of, rows) for of, rows in zip(steps, problems) if entry in of]
    first = next((e for e in (of_it[0][0] if of_it else ()) if all(e in of for of, _ in of_it)), entry)
    gains = [of[first].times.median / of[entry].times.median for of, _ in of_it] if first != entry else []
    ratios = [min(vendor) / of[entry].times.median for of, rows in of_it if (vendor := [r.times.median for r in rows if r.peer])]
    wins = sum(r > 1 for r in ratios)
    number = str(len(of_it)) if len(of_it) == len(problems) else f"{len(of_it)} of {len(problems)}"
    return [Cell(title(kind) + file.launch() + (f" ({file.name})" if several else "")), Cell(number, len(of_it)),
            name(entry, "code", f"first: {first}" if gains else ""), cell(geometric_mean(gains), times), cell(geometric_mean(ratios), times),
            Cell(f"{wins} of {len(ratios)}" if ratios else "", wins if ratios else math.nan)]
