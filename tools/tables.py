#!/usr/bin/env python3
"""Puts measured tables and numbers into the pages, so that none is typed. One file, though long: a list of kinds of tables, each a function of
ten to forty lines over the same rows and the same ways to write a number.

A page holds a pair of lines, between which this script writes a table:

    <!-- KIND FILE REGEX [MATRIX ...] -->
    <!-- end KIND -->

FILE is a record, relative to the project's root, or a pattern such as results/x/spmm_n32_*.json: of a study that was recorded in parts, on
one machine. REGEX finds the names of the entries, and only the matrices that are named count (none named: all). Of a JSON of `stages run` a word
options=TEXT among them (blanks written as _) takes the rows with these options, ranks=1,4 those of one process, or on so many ranks. KIND is

    table     times: a line an entry, a column a matrix, with the machine
    ladder    the rungs of a step: a line an entry, with its file, its name and what is new, which are typed and stay as they are; then a column
              for each matrix and its options, and the gain over the line before, or over the entry in the words "gain over `ENTRY`" of what is
              new. Entries that are not typed come behind. Without a record the typed columns stand alone, with how to make one
    ratios    speeds over the fastest library: a line a matrix, a column an entry. For times of CPUs, which say little elsewhere; ratios of one run
              say more. On a GPU each entry gets its mean over all matrices, because there one entry is to win everywhere
    scaling   rows that ran on several ranks: their clocks, and the speed-up of each over the fastest serial entry of stage 01 in the same
              file (step 8: over its fastest entry for one GPU, with the phases of those that ran on several). With phases=NAME,... (blanks
              written as _) among MATRIX in place of the clocks the time of these phases, means over the runs
    chain     products that follow each other: a line a round, a column an entry and a place of C; on several numbers of ranks a table each
    products  sparse products, a line a matrix: rates beside the fastest algorithm of the library, the phases of the fastest of ours, and what it
              reaches of the limits: of memory, of L2 by the record of requests, and, where they were counted, of the issue of instructions
    counters  what ncu counted: the record of tools/counters.sh, of the cases in whose "matrix, options, entry" REGEX is found (as it holds no
              blanks, a dot stands for one)
    gather    the rates at which rows at random places were read, of sizes that REGEX finds, as in 30MB (below REGEX is a dot where it says nothing)
    programs  whole programs beside those of the course project's report: the record of tools/whole_program.py
    steps     what each step is worth: a line for each measurement in STEPS below (FILE: results)

A number in prose stands between <!-- value FILE ENTRY MATRIX [WHAT ...] --> and <!-- /value -->; the first may go over several lines.
FILE as above, `results/` may be left out. ENTRY with its step, or without where one entry in FILE has that name. MATRIX as in the record,
or as in the tables (n=1024, arxiv). Without WHAT it is the median time of a run. WHAT is one of

    over:REGEX       the time of the fastest entry that REGEX finds, over this entry's; where MATRIX is `mean`, the geometric mean over all
                     matrices of the file on which both have a time, where it is `least`, the least of them, and where it is `behind`, on how
                     many of them (with all options that fit) this entry is the slower one. With in:FILE before it those entries are looked for
                     in another record of the same machine (and in whatever place C is left), with clock:NAME this entry's time is that metric
    phase:NAME       the time of a phase
    without:NAME     the time of a run less that phase; with over: this and those times, of entries that have the phase
    prepare          the time of preparing the plan
    NAME             a metric, or gflops, bandwidth_share, result_nnz; in a record of tools/counters.sh a counter, with per:OTHER
                     over another counter or a number

and before it, where several results fit, ranks=N, type=f32, operation=spmv, options=TEXT. The word `digits=N` shows a number with so many
digits, `percent` a share. ENTRY `context` and MATRIX NAME is what the record says of the machine. In a record of gathers ENTRY is the size of B
and MATRIX the bytes read of a row, as in the table: `300MB 128`.

    tools/tables.py            writes all pages anew: the READMEs, all other pages of the steps, and those in docs/
    tools/tables.py --check    changes nothing; exit code 1 if one is not what the results say
"""

import argparse
import functools
import math
import pathlib
import re
import sys

import record

PAGES = ("README.md", "[0-9][0-9]_*/*.md", "docs/*.md")
ROOT = pathlib.Path(__file__).resolve().parent.parent


# By how much a time moves from one process to the next, where only one was measured.
MOVES = 0.02


def three_digits(value):
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def seconds(value):
    """Three digits and a unit, as the program prints them."""
    for prefix, size in (("", 1), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9)):
        if value >= size * 0.9995 or prefix == "n":
            return f"{three_digits(value / size)} {prefix}s"


def times(value):
    """A speed-up: "1.73x"."""
    if not math.isfinite(value) or value <= 0:
        return ""
    return "<0.01x" if value < 0.005 else f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}x"


def gain(speeds):
    """A speed-up in words, or that of several, each with how well it is known, as a share: ~1x where that is no more than the noise."""
    mean = geometric_mean(speed for speed, _ in speeds)
    share = math.hypot(*(noise for _, noise in speeds)) / max(1, len(speeds))  # of none: no text
    return "~1x" if abs(math.log(mean)) <= math.log1p(share) else times(mean)


def size_of(matrix):
    """The n of a matrix of the study over n (gen:fixed, 80 % zeros), or None."""
    match = re.fullmatch(r"gen:fixed:n=(\d+),zeros=0\.8", matrix)
    return int(match[1]) if match else None


def label(matrix):
    """The part of a spec that tells the matrices of a study apart."""
    if n := size_of(matrix):
        return f"n = {n}"
    return re.sub(r"^gen:twin:|^data:|\.mtx(\.gz)?$", "", matrix.rsplit("/", 1)[-1])


def share(value):
    """A part of what would be possible, in percent."""
    return "" if value is None else f"{100 * value:.0f} %"


def median(row):
    """The median time of a run, in seconds."""
    return row["seconds"]["run"]["median"]


def noise(row):
    """How well that is known, as a share: of one process no better than what moves between processes (docs/timing.md)."""
    run = row["seconds"]["run"]
    share = (run["q3"] - run["q1"]) / run["median"] if run["noise"] is None else run["noise"]
    return share if run.get("processes", 1) > 1 else max(share, MOVES)


def median_without(row, phase):
    """The same less a phase, where the entry has it; `phase` may be empty."""
    return median(row) - row["seconds"].get("phases", {}).get(phase.replace("_", " "), 0)


def measured(row, name):
    """A metric of a row; None where it has none, or it is unknown."""
    return row["metrics"].get(name, {}).get("value")


def timed_rows(results):
    """The rows that have a time: of entries that passed their check."""
    for r in results["results"]:
        if r["status"] not in ("good", "wrong", "failed", "skipped"):
            sys.exit(f"tables: {r['entry']}: there is no status '{r['status']}'; write the record anew by `stages run --json`")
    return [r for r in results["results"] if r["status"] == "good" and "seconds" in r]


@functools.cache
def is_gone(entry):
    """Whether no source of its step names it: records keep what was measured, and tables show what is there."""
    step, _, name = entry.partition(":")[0].partition("/")
    folder = ROOT / step
    return folder.is_dir() and not any(f'"{step}/{name}"' in file.read_text() for file in folder.rglob("*.[chH]*"))


def line_of(cells):
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table_of(titles, rows):
    """The lines of a Markdown table."""
    return [line_of(titles), "|---" * len(titles) + "|", *map(line_of, rows)]


def text_of(lines, *caption):
    """Lines, and behind an empty one what is said of them."""
    return "\n".join([*lines, "", *caption]) + "\n"


def source_of(of, where=None):
    """How a caption ends: where the record was made (by default, on which GPU), when, and of which sources."""
    return f"{where or of['gpu']}, {of['date'][:10]}, sources {of['source_digest'][:12]}"


def place_of(context):
    """The GPU that was measured, or else the processor."""
    return context["gpu" if "gpu_sms" in context else "cpu"]


def bold(text, best):
    return f"**{text}**" if best else text


def named(entry):
    """The name of an entry without its step."""
    return f"`{entry.split('/')[1]}`"


def table(results, pattern):
    """The Markdown table of one results file."""
    rows = [r for r in timed_rows(results) if re.search(pattern, r["entry"])]
    time = {(r["entry"], r["problem"]["matrix"]): median(r) for r in rows}
    entries, matrices = (list(dict.fromkeys(key[k] for key in time)) for k in (0, 1))
    best = {m: min(t for (_, matrix), t in time.items() if matrix == m) for m in matrices}
    cell = lambda e, m: bold(seconds(time[e, m]), time[e, m] == best[m]) if (e, m) in time else ""
    lines = table_of(["entry", *map(label, matrices)], ([f"`{e}`", *(cell(e, m) for m in matrices)] for e in entries))
    context = results["context"]
    what = "; ".join([f"time of one product, {o}" for o in sorted({r["problem"]["options"] for r in rows} - {""})] or ["time of one product"])
    launch = ", replayed as a CUDA graph" if context.get("gpu_launch") == "graph" else ""
    return text_of(lines, f"({what}{launch}; medians; {source_of(context, place_of(context))}; fastest bold)")


def memory_of_library(rows):
    """Where a library's sparse product takes its memory from, of whose entries some are here twice; empty where there is no such product."""
    products = [r["entry"] for r in rows if r["entry"].startswith("vendor/cusparse_spgemm")]
    if not products:
        return ""
    return "with and without step 8's pool of memory" if any(e.endswith("_pooled") for e in products) else "which allocates in each run"


def typed_rungs(written):
    """File, entry and what is new, as typed in a ladder: a list of three cells each; those of the library are no rung."""
    rungs = []
    for line in written.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) >= 3 and re.fullmatch(r"`\w+`", cells[1]):
            rungs.append(cells[:3])
    return rungs


def rungs():
    """Step by step: {step: (arguments, [rung])}; a rung is a dict of the columns of data/rungs.tsv."""
    steps, names = {}, ("entry", "over", "matrix", "predicted", "words")
    for line in (ROOT / "data/rungs.tsv").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) == 2:
            steps[fields[0]] = (fields[1], [])
        elif len(fields) == len(names):
            steps[fields[0].split("/")[0]][1].append(dict(zip(names, fields)))
        else:
            sys.exit(f"data/rungs.tsv: '{line}' has {len(fields)} columns: a step has 2, a rung {len(names)}")
    return steps


@functools.cache
def right_matrices():
    """By entry: the rung that it changes ("-": none), and the matrix on which that is right."""
    short = lambda entry: entry if entry == "-" else named(entry)
    return {named(rung["entry"]): (short(rung["over"]), rung["matrix"]) for _, of_step in rungs().values() for rung in of_step}


def ladder(results, pattern, written, file):
    """The rungs of a step with their times, and the gain of each; `results` is None where there is no record. `written`: the old text."""
    rungs, titles = typed_rungs(written), ["file", "entry", "what is new"]
    if not results:
        return text_of(table_of(titles, rungs), f"(No record yet: {file}.",
                       "On a GPU `tools/verify-gpu.sh --only ladders` makes it, and then `tools/tables.py` this table.)")
    timed = timed_rows(results)
    columns = list(dict.fromkeys(map(problem_of, timed)))
    time = {(named(r["entry"]), problem_of(r)): median(r) for r in timed}
    known = {(named(r["entry"]), problem_of(r)): noise(r) for r in timed}
    took = lambda entry: {column: time[entry, column] for column in columns if (entry, column) in time}
    of_step = dict.fromkeys(named(r["entry"]) for r in timed if re.search(pattern, r["entry"]))
    rungs += [["", entry, ""] for entry in of_step if entry not in [rung[1] for rung in rungs]]
    rows, before = [], ""
    for rung in rungs:
        mine, out_of_line = took(rung[1]), re.search(r"gain over (`\w+`)", rung[2])
        other, matrix = right_matrices().get(rung[1], (out_of_line[1] if out_of_line else before, None))
        over, own = took(other), [column for column in columns if matrix in (column[0], "; ".join(column))]
        speeds = [(over[column] / mine[column], math.hypot(known[other, column], known[rung[1], column]))
                  for column in mine if column in over and column in (own or columns)]  # of a record of before, or of fast/: all
        cell = lambda column: f"**{seconds(mine[column])}**" if column in own else seconds(mine[column])
        rows.append([*rung, *(cell(column) if column in mine else "" for column in columns), gain(speeds)])
        before = rung[1] if mine else before
    vendor = [r for r in timed if r["peer"]]
    pooled = [r for r in vendor if r["entry"].endswith("_pooled")]
    library = "cuSPARSE, its fastest" if all("cusparse" in r["entry"] for r in vendor) else "cuBLAS and cuSPARSE, the fastest"
    for what, of in (("memory from the pool of `binned`", pooled),
                     ("allocates in each run" if memory_of_library(vendor) else "", [r for r in vendor if r not in pooled])):
        best = [min((median(r) for r in of if problem_of(r) == column), default=None) for column in columns]
        if of:
            rows.append(["", library, what, *("" if t is None else seconds(t) for t in best), ""])
    several = len({options for _, options in columns}) > 1
    titles += [", ".join(filter(None, (label(matrix), several and options))) for matrix, options in columns] + ["gain"]
    of_all = "" if several or not columns or not columns[0][1] else f", {columns[0][1]}"
    return text_of(table_of(titles, rows),
                   f"(times of one product{of_all}, medians; gain: speed over the line before, or the entry named, on the matrix in bold, else the geometric mean of the columns;",
                   f"{source_of(results['context'])})")


def exchanged(row):
    """What a product takes on several GPUs with bringing B from each to the others, which belongs to loading it. None where that is unknown."""
    parts = [measured(row, "distributed_seconds"), measured(row, "exchange_b_seconds")]
    return None if None in parts else sum(parts)


def scaling_columns(timed, on_gpus):
    """Titles of a table of ranks, and what stands under each of them for a row, given the fastest without ranks (None: there is none)."""
    timed_as = lambda value, base=None: "" if value is None else seconds(value) + (f" ({times(median(base) / value)})" if base else "")
    clock = lambda name: lambda r, base: timed_as(measured(r, name), base)
    ratio = lambda name: lambda r, _: "" if measured(r, name) is None else f"{measured(r, name):.2f}"
    exchange = {"+ exchange of B": lambda r, base: timed_as(exchanged(r), base)} if on_gpus else {"+ exchange": clock("distributed_seconds")}
    columns = {"entry": lambda r, _: f"`{r['entry']}`", "ranks": lambda r, _: str(r["ranks"]), "compute": clock("compute_seconds"),
               **exchange, "root to root": clock("root_to_root_seconds"),
               "bytes moved": lambda r, _: f"{measured(r, 'bytes_moved') / 1e6:.1f} MB",
               "imbalance": ratio("imbalance")}
    if any(measured(r, "compute_imbalance") is not None for r in timed):  # records of before have none
        columns["in time"] = ratio("compute_imbalance")
    return columns


def scaling(results, pattern, phases=()):
    """The Markdown tables of one results file with several numbers of ranks: a table a problem; of GPUs, then the phases of all. `phases`: the names
    of those that are told in place of the clocks."""
    context = results["context"]
    timed = timed_rows(results)
    ranked = [r for r in timed if r["mpi"] and re.search(pattern, r["entry"])]
    problem_of = lambda r: (r["problem"]["matrix"], r["problem"]["options"], r["problem"]["operation"], r["problem"]["type"])
    on_gpus = any(not r["mpi"] and re.search(pattern, r["entry"]) for r in timed)  # one against several
    columns = scaling_columns(timed, on_gpus)
    if phases:
        phase = lambda name: lambda r, _: seconds(r["seconds"]["phases"][name]) if name in r["seconds"]["phases"] else ""
        columns = {title: columns[title] for title in ("entry", "ranks")} | {name: phase(name) for name in phases}
    lines, shown = [], []
    for problem in dict.fromkeys(problem_of(r) for r in timed if r["mpi"]):
        bases = [r for r in timed if problem_of(r) == problem and not r["mpi"] and not r["structure_reuse"]
                 and re.search(pattern if on_gpus else "^01_", r["entry"])]
        base = min(bases, key=median, default=None)
        over = f"`{base['entry']}` on one GPU" if base and on_gpus else "fastest serial entry"
        rows = [(r, base) for r in ranked if problem_of(r) == problem]
        lines += [f"{label(problem[0])}, {problem[2]} {problem[3]}{', ' + problem[1] if problem[1] else ''}"
                  + (f"; {over} {seconds(median(base))}:" if base else ":"), "",
                  *table_of(columns, ([cell(*row) for cell in columns.values()] for row in rows)), ""]
        shown += rows
    if on_gpus:
        lines += phases_of_ranks([(r, base) for r, base in shown if r["ranks"] > 1], context)
    counts = sorted({r["ranks"] for r in timed if r["mpi"]})
    known = lambda name: [(ranks, context[f"ranks={ranks}: {name}"]) for ranks in counts if f"ranks={ranks}: {name}" in context]
    copies = [f"{ranks} ranks {float(rate) / 1e9:.1f}" for ranks, rate in known("copy_bandwidth_bytes_per_second")]
    cores = next((value for key, value in context.items() if key.endswith(": cores")), "?")
    if gpus := [f"{ranks} processes {number}" for ranks, number in known("gpus")]:
        lines.append(f"({context['gpu']}; GPUs: {', '.join(gpus)})")
    return "\n".join([*lines, f"({source_of(context, context['cpu'] + f', {cores} cores')}; copy bandwidth in GB/s: {', '.join(copies)})"]) + "\n"


def chain(results, pattern):
    """The rounds of chains, by matrix and number of ranks, and the speed of each entry and place of C over the first."""
    table, order = {}, re.compile(r"(?:, )?round (\d+) of \d+")
    for r in timed_rows(results):
        if (found := order.search(r["problem"]["options"])) and re.search(pattern, r["entry"]):
            form = order.sub("", r["problem"]["options"])
            place = "C distributed" if "C distributed" in form else ""
            key = label(r["problem"]["matrix"]), form.replace(place, "").strip(", "), r["ranks"]
            table.setdefault(key, {}).setdefault(int(found.group(1)), {})[r["entry"], place] = r
    lines = []
    for (matrix, form, ranks), rounds in table.items():
        columns = list(dict.fromkeys(c for cells in rounds.values() for c in cells))
        titles = [named(entry) + (f", {place}" if place else "") for entry, place in columns]
        lines += [f"{matrix}{', ' + form if form else ''}, {ranks} rank{'s' * (ranks > 1)}:", ""]
        lines += table_of(["round", "non-zeros of A", "of C", *titles], (
            [str(k), *(f"{count:,}" for count in (lambda r: (r["problem"]["nnz"], r["result_nnz"]))(next(iter(cells.values())))),
             *(chain_cell(cells[c], cells[columns[0]]) for c in columns)] for k, cells in sorted(rounds.items()))) + [""]
    context = results["context"]
    return "\n".join([*lines, f"(medians, and the speed over the first of a line; what messages move; {source_of(context, place_of(context))})"]) + "\n"


def chain_cell(row, first):
    over = f" ({times(median(first) / median(row))})" if row is not first else ""
    return seconds(median(row)) + over + (f", {sent / 1e6:.1f} MB" if (sent := measured(row, "bytes_moved")) else "")


PHASES = ("analysis", "symbolic", "allocation", "numeric")


def phases_of_ranks(rows, context):
    """The phases of products on several GPUs, and what the limit of one GPU, times their number, says of what they compute in. `rows`: each
    with the fastest on one GPU, or None."""
    names = [name for name in PHASES if any(name in r["seconds"]["phases"] for r, _ in rows)]
    loads = {"B to its GPU": "upload_b_seconds", "between GPUs": "exchange_b_seconds"}
    cell = lambda value: seconds(value) if value else ""
    cells = []
    for row, base in rows:
        took = measured(row, "compute_seconds")
        cells.append([label(row["problem"]["matrix"]), named(row["entry"]), str(row["ranks"]),
                      *(cell(row["seconds"]["phases"].get(name)) for name in names), *(cell(measured(row, name)) for name in loads.values()),
                      limit(base, context, took, row["ranks"]) if base and took else ""])
    return ["Phases, the longest of all processes; what loading B takes; compute, of the limit:", "",
            *table_of(["matrix", "entry", "ranks", *names, *loads, "of the limit"], cells), ""]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def two_digits(speed):
    return f"{speed:.2f}" if speed >= 0.01 else "<0.01"


def ratios(results, pattern):
    """The Markdown tables of one results file, speeds over the fastest library: a table an operation."""
    timed, context = timed_rows(results), results["context"]
    on_gpu = "gpu_sms" in context
    problem_of = lambda r: (r["problem"]["operation"], r["problem"]["type"], r["problem"]["options"])
    lines = []
    for problem in dict.fromkeys(map(problem_of, timed)):
        rows = [r for r in timed if problem_of(r) == problem]
        entries = [e for e in dict.fromkeys(r["entry"] for r in rows) if re.search(pattern, e) and not e.startswith("vendor/")]
        best, speeds, shown = [], {e: [] for e in entries}, []
        for matrix in dict.fromkeys(r["problem"]["matrix"] for r in rows):
            time = {r["entry"]: median(r) for r in rows if r["problem"]["matrix"] == matrix}
            vendor = min((e for e in time if e.startswith("vendor/")), key=time.get, default=None)
            if not vendor:
                continue
            speed = {e: time[vendor] / time[e] for e in entries if e in time}
            best.append(max(speed.values()))
            shown.append([label(matrix), *(bold(two_digits(speed[e]), speed[e] == best[-1]) if e in speed else "" for e in entries),
                          vendor.split("/")[1] if on_gpu else vendor.split("/")[1].split("_")[0]])
            for e in speed:
                speeds[e].append(speed[e])
        for name, of in (("geometric mean", geometric_mean), ("least", min)) if on_gpu else ():
            shown.append([name, *(two_digits(of(speeds[e])) if len(speeds[e]) == len(best) else "" for e in entries), ""])
        lines += [f"{problem[0]} {problem[1]}{', ' + problem[2] if problem[2] else ''}:", "",
                  *table_of(["matrix", *map(named, entries), "against"], shown), ""]
        if not on_gpu and len(best) > 1:
            lines += [f"Geometric mean of the fastest: {geometric_mean(best):.2f}.", ""]
    lines.append(f"(speed over the fastest of the library's algorithms, 1 is as fast; medians of one run; {source_of(context)}; fastest bold)"
                 if on_gpu else f"(speed over the faster library, 1 is as fast; medians of one run; {source_of(context, context['cpu'] + ', one thread')}; "
                 "fastest bold; empty: beyond the limits of work or memory)")
    return "\n".join(lines) + "\n"


SEGMENT = 64  # bytes of a request for which L2 takes about as long as for a smaller one


@functools.cache
def recorded(pattern):
    """The first record of that name, or None."""
    files = records_of(pattern)
    return record.read(files[0]) if files else None


def counted(row, context):
    """What ncu counted of this entry on this matrix on the same kind of GPU, or None."""
    counts = recorded(f"{machine_of(context)}/counters_spgemm.json")
    same = lambda c: c["status"] == "good" and c["entry"] == row["entry"] and label(c["matrix"]) == label(row["problem"]["matrix"])
    return next((c for c in counts["cases"] if same(c)), None) if counts else None


def machine_of(context):
    return context["gpu"].lower().replace(" ", "-")


def limits(row, context):
    """The least times of a product, in seconds, by what would bound it: each as far as records tell it.

    memory: bytes that must cross the bus. L2: requests of up to 64 bytes for rows of B, if L1 held nothing, at the rate at which it answers them
    where B fits into it. issue: the instructions of warps, one a cycle for each quarter of an SM."""
    least = {}
    if measured(row, "memory_bytes_at_least") and "gpu_copy_bandwidth_bytes_per_second" in context:
        least["memory"] = measured(row, "memory_bytes_at_least") / float(context["gpu_copy_bandwidth_bytes_per_second"])
    gathered, requests = recorded(f"{machine_of(context)}/gather.json"), recorded("*/l2_requests.json")
    asked = next((p["requests"] for p in requests["products"] if label(p["matrix"]) == label(row["problem"]["matrix"])), None) if requests else None
    if gathered and asked:
        least["L2"] = asked * SEGMENT / max(r["bytes_per_second"] for r in gathered["rates"] if r["piece_bytes"] == SEGMENT)
    count = counted(row, context)
    if count and machine_of(context) in HIGHEST_CLOCK:
        least["issue"] = count["instructions"] / (4 * int(context["gpu_sms"]) * HIGHEST_CLOCK[machine_of(context)])
    return least


def limit(row, context, took, gpus=1):
    """Which limit the product of a row meets, and how many percent of the speed that it allows `gpus` GPUs reached that took so many seconds."""
    least = limits(row, context)
    which = max(least, key=least.get, default=None)
    return f"{share(least[which] / gpus / took)} ({which})" if which else ""


def products(results, pattern):
    """The Markdown table of one results file of sparse products: rates, then phases and limits of the fastest of ours that counts anew."""
    context = results["context"]
    timed = timed_rows(results)
    entries = [e for e in dict.fromkeys(r["entry"] for r in timed) if re.search(pattern, e)]
    fastest = lambda rows: max(rows, key=lambda r: r["gflops"], default=None)
    rate = lambda r: f"{r['gflops']:.{0 if r['gflops'] >= 99.5 else 1}f}" if r else ""
    lines, speeds = [], []
    for matrix in dict.fromkeys(r["problem"]["matrix"] for r in timed):
        rows = {r["entry"]: r for r in timed if r["problem"]["matrix"] == matrix}
        best = fastest([rows[e] for e in entries if e in rows and not rows[e]["structure_reuse"]])
        vendor = fastest([r for e, r in rows.items() if e.startswith("vendor/")])
        if not best:
            continue
        speeds += [best["gflops"] / vendor["gflops"]] if vendor else []
        count, took, least = best["problem"]["multiplications"], best["seconds"]["phases"], limits(best, context)
        ncu = counted(best, context)
        lines.append({"matrix": label(matrix), "products": f"{count / 1e6:.1f} M", "a result": f"{count / max(best['result_nnz'], 1):.1f}",
                      **{named(e): rate(rows.get(e)) for e in entries},
                      "library": rate(vendor), "speed over it": f"{speeds[-1]:.2f}" if vendor else "", "time": seconds(median(best)),
                      **{part: seconds(took[part]) if part in took else "" for part in ("analysis", "symbolic", "numeric")},
                      **{name: share(least[name] / median(best)) if name in least else "" for name in ("memory", "L2", "issue")},
                      "L1 hits": share(ncu["load_sectors_hit"] / ncu["load_sectors"]) if ncu else ""})
    known = [title for title in lines[0] if title not in ("issue", "L1 hits") or any(line[title] for line in lines)] if lines else ["matrix"]
    types = "/".join(sorted({r["problem"]["type"] for r in timed}))
    memory = memory_of_library(timed)
    return text_of(table_of(known, ([line[title] for title in known] for line in lines))
                   + (["", f"Geometric mean of the speed over the library: {geometric_mean(speeds):.2f}."] if speeds else []),
                   f"(GFLOP/s, two operations a product, {types}, whole calls; medians; library: the fastest algorithm{', ' + memory if memory else ''}; "
                   "time, phases and limits: of the fastest of ours that counts anew; limits: what each allows, as a part of that time; "
                   f"{source_of(context, place_of(context))})")


def gather(results, pattern):
    """The Markdown table of a record of such rates: a line a size of B, a column a size of what is read of a row."""
    rate = {(r["b_bytes"], r["piece_bytes"]): f"{r['bytes_per_second'] / 1e12:.1f}" for r in results["rates"]}
    sizes, pieces = (sorted({key[k] for key in rate}) for k in (0, 1))
    apart = f"rows {results['stride']} bytes apart" if results["stride"] else "whole rows"
    return text_of(table_of(["B", *(f"{piece} bytes" for piece in pieces)],
                            ([f"{size / 1e6:.0f} MB", *(rate.get((size, piece), "") for piece in pieces)] for size in sizes
                             if re.search(pattern, f"{size / 1e6:.0f}MB"))),
                   f"(TB/s; {apart}; medians; {results['device']})")


def large(count, unit=""):
    """A count with three digits: "12.3 M"."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size * 0.9995:
            return three_digits(count / size) + f" {prefix}{unit}"
    return f"{count:.0f}" + (f" {unit}" if unit else "")


def moved(count, time):
    """Bytes, and the rate at which they moved: "123 MB, 4.56 TB/s"."""
    return large(count, "B") + (f", {count / time / 1e12:.2f} TB/s" if time else "")


ratio = lambda above, below: f"{above / below:.1f}" if below else ""
part = lambda some, all_: share(some / all_) if all_ else ""
percent = lambda value: f"{value:.0f} %"


SECTOR = 32  # bytes

# The columns of what ncu counted: a head, the counters that it needs, and how they are shown. A counter of a case may be unknown.
COUNTERS = (
    ("time", ("seconds",), seconds),
    ("instructions", ("instructions",), large),
    ("threads each", ("thread_instructions", "instructions"), ratio),
    ("sectors a request", ("load_sectors", "load_requests"), ratio),
    ("L1 hits", ("load_sectors_hit", "load_sectors"), part),
    ("L2 hits", ("l2_read_sectors_hit", "l2_read_sectors"), part),
    ("of L2", ("l2_sectors", "seconds"), lambda sectors, time: moved(SECTOR * sectors, time)),
    ("of memory", ("dram_read_bytes", "dram_written_bytes", "seconds"), lambda read, written, time: moved(read + written, time)),
    ("warps of a busy SM", ("warps_active",), percent),
    ("of all SMs", ("warps_at_all_times",), percent),
)
# Where anything is added by atomics in shared memory, these too.
SHARED = (
    ("shared atomics", ("shared_atomics",), large),
    ("of them CAS", ("shared_cas",), large),
    ("shared wavefronts", ("shared_wavefronts",), large),
)
# Where they were counted, of global loads and of local memory (tools/counters.py, OF_SPMV). The passes over the data are also those of shared memory.
LOADS = (
    ("tag passes a load", ("load_tag_wavefronts", "load_requests"), ratio),
    ("data passes a load", ("data_wavefronts", "shared_wavefronts", "load_requests"), lambda all_, shared, requests: ratio(all_ - shared, requests)),
    SHARED[2],
    ("bank conflicts", ("shared_conflicts",), large),
    ("registers", ("registers",), "{:.0f}".format),
    ("wait for data", ("waits_for_data",), "{:.1f}".format),
    ("for the queue", ("waits_for_queue",), "{:.1f}".format),
)
LOCAL = (
    ("local loads", ("local_loads",), large),
    ("local stores", ("local_stores",), large),
    ("local L1 hits", ("local_load_sectors_hit", "local_load_sectors"), part),
)


def counters(results, pattern):
    """The Markdown table of a record of tools/counters.sh: a line a case and entry."""
    case = lambda c, matrix: ", ".join(filter(None, (matrix, c["options"])))
    chosen = [c for c in results["cases"] if re.search(pattern, f"{case(c, c['matrix'])}, {c['entry']}")]
    with_loads = any("registers" in c for c in chosen)
    columns = COUNTERS + (LOADS if with_loads else ()) + (LOCAL if any(c.get("local_loads") for c in chosen) else ())
    columns += SHARED if any(c.get("shared_atomics") or c.get("shared_cas") for c in chosen) else ()
    columns = tuple(dict.fromkeys(columns))
    rows = []
    for c in chosen:
        if c["status"] == "good":
            cells = [show(*(c[need] for need in needs)) if all(need in c for need in needs) else "" for _, needs, show in columns]
        else:
            cells = ["not counted: " + c["reason"].replace("|", "/")] + [""] * (len(columns) - 1)
        rows.append([case(c, label(c["matrix"])), f"`{c['entry']}`", *cells])
    explained = ("; passes: of L1, over its tags and over its data, for a load of a warp; bank conflicts: wavefronts of shared memory that they cost; "
                 "wait: clocks for which a warp waits, for each instruction issued; queue: of loads, because it is full" if with_loads else "")
    ncu = results["ncu"].split(" (")[0].replace("Version", "ncu")
    return text_of(table_of(["case", "entry", *(head for head, _, _ in columns)], rows),
                   "(all kernels of one product; time: of each kernel alone, under ncu; instructions: of warps; threads each: lanes that take part; "
                   "L1: global loads; L2: what the SMs asked of it, its hits those of reads; warps: of what an SM holds while it has any, "
                   f"and of what all SMs hold from a kernel's start to its end{explained}; {source_of(results, results['gpu'] + ', ' + ncu)})")


VALUE = re.compile(r"(<!--\s+value\s+([^<>]*?)\s+-->)([^<>]*?)(<!-- /value -->)")
SELECTORS = ("ranks", "type", "operation", "options")
WITH_VALUE = (*SELECTORS, "digits", "in", "clock", "without", "per")  # beside what is told: NAME=VALUE or NAME:VALUE
LISTED = ("gflops", "result_nnz", "bandwidth_share")  # of a result, and no metrics of its entry


def in_unit(name, number, words):
    """A number as prose shows it: by its name a time, bytes, a rate or a count."""
    digits = next((int(w.removeprefix("digits=")) for w in words if w.startswith("digits=")), None)
    if "percent" in words:
        return f"{100 * number:.{digits or 0}f} %"
    if digits is not None:
        return f"{number:.{digits}f}"
    if name.endswith("seconds"):
        return seconds(number)
    if "bytes_per_second" in name:
        return f"{number / 1e12:.2f} TB/s" if number >= 1e12 else f"{number / 1e9:.1f} GB/s"
    if "bytes" in name and number >= 1e3:
        return large(number, "B")
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f}"


def of_file(name):
    """The record of that name or pattern. Raises ValueError if there is none."""
    if parts := records_of(name):
        return merged(parts)
    raise ValueError(f"there is no record '{name}'")


def matrix_of(row):
    return row["problem"]["matrix"] if "problem" in row else row["matrix"]


def names_of(row):
    """How a page may name the matrix of a row: as in the record, or as in the tables."""
    return {matrix_of(row), label(matrix_of(row)).replace(" ", "")}


def value(results, entry, matrix, words):
    """One number of a record, as text. Raises ValueError where the record does not hold exactly one."""
    if entry == "context":
        if matrix not in results["context"]:
            raise ValueError(f"the context has no '{matrix}'")
        found = results["context"][matrix]
        try:
            return in_unit(matrix, float(found), words)
        except ValueError:
            return str(found)
    if "rates" in results:
        rates = {(f"{rate['b_bytes'] / 1e6:.0f}MB", str(rate["piece_bytes"])): rate["bytes_per_second"] for rate in results["rates"]}
        if (entry, matrix) not in rates:
            raise ValueError(f"there is no rate of {matrix} bytes of a B of {entry}")
        return f"{rates[entry, matrix] / 1e12:.1f} TB/s"
    pairs = {word: re.match(r"(\w+)[=:](.*)", word) for word in words}
    given = {pair[1]: pair[2] for pair in pairs.values() if pair and pair[1] in WITH_VALUE}
    told = [word for word, pair in pairs.items() if word != "percent" and not (pair and pair[1] in given)]
    what = told[0] if told else ""
    over = what.removeprefix("over:") if what.startswith("over:") else ""
    of_cases, of_several, without = "cases" in results, matrix in ("mean", "least", "behind"), given.get("without", "")
    timed = results["cases"] if of_cases else timed_rows(results)
    for wrong, fault in (
            (len(told) > 1, f"one of '{' '.join(told)}' at a time"),
            (of_several and not over, f"'{matrix}' belongs to over:REGEX"),
            (("in" in given or "clock" in given) and not over, "what stands behind 'in:' or 'clock:' belongs to over:REGEX"),
            (without and what and not over, f"'without:{without}' belongs to the time of a run or to over:REGEX"),
            ("per" in given and not of_cases, "'per:' belongs to a counter")):
        if wrong:
            raise ValueError(fault)
    selected = {name: text for name, text in given.items() if name in SELECTORS}
    of = lambda row, name: str(row[name] if name in row else row["problem"][name]).replace(" ", "_")
    mine = [r for r in timed if (r["entry"] == entry or r["entry"].endswith("/" + entry))
            and all(of(r, name) == text for name, text in selected.items())
            and (of_several or matrix in names_of(r))]
    if not mine:
        raise ValueError(f"there is no good result of '{entry}' on '{matrix}'" + (f" with {selected}" if selected else ""))
    if without and not any(without.replace("_", " ") in r["seconds"].get("phases", {}) for r in timed):
        raise ValueError(f"no entry has a phase '{without}'")
    if over:
        return value_over(mine, timed, over, matrix, given)
    if len(mine) > 1:
        raise ValueError(f"{len(mine)} results fit; name {', '.join(SELECTORS)} too")
    row = mine[0]
    if of_cases:
        per = given.get("per", "1")
        divisor = float(per) if per.isdecimal() else row.get(per)
        if unknown := [name for name, count in ((what, row.get(what)), (per, divisor)) if count is None]:
            raise ValueError(f"there is no counter '{unknown[0]}'")
        if not divisor:
            raise ValueError(f"'{per}' is 0")
        return in_unit(what, row[what] / divisor, words)
    if not what:
        return seconds(median_without(row, without))
    if what == "prepare":
        return seconds(row["seconds"]["prepare"])
    if what.startswith("phase:"):
        name = what.removeprefix("phase:").replace("_", " ")
        if name not in row["seconds"]["phases"]:
            raise ValueError(f"there is no phase '{name}'")
        return seconds(row["seconds"]["phases"][name])
    number = row.get(what) if what in LISTED else measured(row, what)
    if not isinstance(number, (int, float)):
        raise ValueError(f"there is no metric '{what}'")
    return in_unit(what, number, words)


def value_over(mine, timed, pattern, matrix, given):
    """What value() says of over:PATTERN: `mine` are the rows that fit, `timed` all of the record, `given` the words with a value."""
    fields = ("operation", "type") if "in" in given else ("operation", "type", "options")
    problem = lambda r: [matrix_of(r)] + [r["problem"][name] for name in fields]
    as_many = lambda r: "ranks" not in given or not r["mpi"] or str(r["ranks"]) == given["ranks"]  # or one process alone
    beside = [r for r in (timed_rows(of_file(given["in"])) if "in" in given else timed)
              if re.search(pattern, r["entry"]) and not r.get("structure_reuse") and as_many(r)]
    without, clock, ratio = given.get("without", ""), given.get("clock"), {}
    for row in mine:
        others = [(median_without(r, without), noise(r)) for r in beside if problem(r) == problem(row)]
        if not others:
            continue
        other, share = min(others)
        took = measured(row, clock) if clock else median_without(row, without)
        if not took:
            raise ValueError(f"there is no metric '{clock}'")
        ratio.setdefault(matrix_of(row), []).append((other / took, math.hypot(share, noise(row))))
    if not ratio:
        raise ValueError(f"no entry like '{pattern}' on {matrix_of(mine[0])}")
    speeds = sum(ratio.values(), [])
    if matrix == "behind":
        if len({(r["problem"]["operation"], r["problem"]["type"], r["ranks"]) for r in mine}) > 1:
            raise ValueError(f"{len(mine)} results fit, of several operations, types or ranks; name one of them")
        return f"{sum(speed < 1 for speed, _ in speeds)} of {len(speeds)}"
    if len(speeds) > len(ratio) or (len(ratio) > 1 and matrix not in ("mean", "least")):
        raise ValueError(f"{len(mine)} results fit; name {', '.join(SELECTORS)} too")
    return gain([min(speeds)] if matrix == "least" else speeds)


def records_of(name):
    """The files of that name or pattern, with or without `results/` before it."""
    return tuple(sorted(ROOT.glob(name)) or sorted((ROOT / "results").glob(name)))


def with_values(text, page, missing):
    """The page with the numbers in its prose as the records say. What has no record yet is added to `missing`."""
    def fill(match):
        start, words, _, end = match.groups()
        file, entry, matrix, *more = words.split() if len(words.split()) > 2 else [""] * 3
        if not file:
            sys.exit(f"tables: {page}: 'value {words}' names no FILE, ENTRY and MATRIX")
        if not (parts := records_of(file)):
            missing.add(file)
            return start + "(no record yet)" + end
        try:
            return start + value(merged(parts), entry, matrix, more) + end
        except ValueError as problem:
            sys.exit(f"tables: {page}: 'value {' '.join(words.split())}': {problem}")

    new = VALUE.sub(fill, text)
    if opened := len(re.findall(r"<!--\s+value\s", text)) - len(VALUE.findall(text)):
        sys.exit(f"tables: {page}: {opened} of its <!-- value ... --> are not closed by <!-- /value -->")
    return new


# What that report says of its programs, on 32 cores and a V100, by the entry nearest to each and its ranks.
REPORTED = {("01_cpu_serial/two_pointer_dot", 0): "6.199 s", ("02_mpi/scatter_gather", 32): "23.416 s, user 39.292 s, sys 56.808 s",
            ("03_cuda_naive/dense_output_strided", 0): "3.942 s"}


def programs(results, pattern):
    """The Markdown table of a record of tools/whole_program.py; on the executor a product has no time."""
    took = lambda p: (seconds(p[name]) if p[name] else "" for name in ("real", "user", "sys", "product"))
    rows = [[f"`{p['entry']}`", str(p["ranks"] or ""), str(p["rows"]), *took(p), f"{p['result_nnz']:,}", REPORTED.get((p["entry"], p["ranks"]), "")]
            for p in results["programs"] if re.search(pattern, p["entry"])]
    context = results["context"]
    return text_of(table_of(["entry", "ranks", "rows", "real", "user", "sys", "of it the product", "nnz(C)", "the report (8191 rows)"], rows),
                   f"(whole programs, f32; user and sys: of all their processes; {source_of(context, place_of(context) + ', ' + context['cpus'] + ' processors, load before ' + context['load'])})")


# What each step is worth: step, record, entries that it is compared with, in words what was multiplied and what it is compared with, and the
# matrix whose time is shown as well. All matrices of a record count: none is chosen.
# The GPU whose records are told.
GPU = "nvidia-h100-80gb-hbm3"
STUDY = "SpMV, 80 % zeros, n = 64 and more"
STUDY_EXAMPLE = "gen:fixed:n=1024,zeros=0.8"
STEPS = (
    ("01_cpu_serial", "cpu-2-cores/cpu-square.json", "01_cpu_serial/gustavson_dense", "SpGEMM, matrices squared or times their transpose", "`gustavson_dense`", ""),
    ("01_cpu_serial", "cpu-2-cores/cpu-vector.json", "", "SpMV, the same matrices", "", ""),
    ("02_mpi", "cpu-16-cores/mpi-d1.json", "01_", "SpGEMM, the course project's pair, best of 1 to 16 ranks", "fastest serial entry", "gen:d1:a"),
    ("02_mpi", "cpu-16-cores/mpi-matrix.json", "01_", "SpGEMM, a web graph squared, best of 1 to 16 ranks", "fastest serial entry", ""),
    ("03_cuda_naive", GPU + "/d2_single_graph.json", "/dense_row_major", STUDY, "`dense_row_major`", STUDY_EXAMPLE),
    ("04_cuda_shared", GPU + "/d2_single_graph.json", "03_", STUDY, "step 3's fastest", STUDY_EXAMPLE),
    ("05_cuda_csr", GPU + "/d2_single_graph.json", "04_", STUDY, "step 4's fastest", STUDY_EXAMPLE),
    ("05_cuda_csr", GPU + "/spmv.json", "/thread_per_row", "SpMV, graphs and meshes", "`thread_per_row`", ""),
    ("05_cuda_csr", GPU + "/spmv_held_out.json", "/thread_per_row", "SpMV, matrices held out (a rule was fitted on one of them later)", "`thread_per_row`", ""),
    ("06_cuda_register", GPU + "/d2_chain_graph.json", "05_", STUDY + ", a chain", "step 5's fastest", STUDY_EXAMPLE),
    ("06_cuda_register", GPU + "/d2_stream.json", "", STUDY + ", 1000 independent vectors", "", STUDY_EXAMPLE),
    ("07_spmm", GPU + "/spmm_n32_*.json", "/warp_per_row", "SpMM, graphs, N = 32", "`warp_per_row`", ""),
    ("07_spmm", GPU + "/spmm_n256_*.json", "/warp_per_row", "SpMM, graphs, N = 256", "`warp_per_row`", ""),
    ("08_spgemm_multigpu", "nvidia-h200/spgemm.json", "/hash_warp_per_row", "SpGEMM, matrices squared or times their transpose, and the course project's pair", "`hash_warp_per_row` without its sort", ""),
)
# Of an entry that a step is compared with, a phase that is not counted: the original of step 8 did not sort.
NOT_COUNTED = {"08_spgemm_multigpu/hash_warp_per_row": "sort"}


def whole(row):
    """Seconds of a product, less what NOT_COUNTED names; of one on several ranks from root to root where that is known."""
    return measured(row, "root_to_root_seconds") or median_without(row, NOT_COUNTED.get(row["entry"], ""))


def problem_of(row):
    return row["problem"]["matrix"], row["problem"]["options"]


def busy(row):
    """For how many seconds of a product the device was busy; None: not known."""
    return row["seconds"].get("busy", {}).get("median")


def least_times(rows, time=whole):
    """{entry: {problem: seconds}}, of several numbers of ranks the least."""
    out = {}
    for r in rows:
        times_of = out.setdefault(r["entry"], {})
        times_of[problem_of(r)] = min(time(r), times_of.get(problem_of(r), math.inf))
    return out


def best_entry(times_of, step):
    """The one entry of the step that is fastest in the geometric mean, of those that ran on the most problems. None if there is none."""
    mine = {entry: t for entry, t in times_of.items() if entry.startswith(step + "/")}
    most = max(map(len, mine.values()), default=0)
    complete = {entry: t for entry, t in mine.items() if len(t) == most}
    return min(complete, key=lambda entry: geometric_mean(complete[entry].values()), default=None)


def speed_up(times_of, entry, baseline):
    """How fast one entry is over the fastest of the baseline: the speed on each problem that both have."""
    out = []
    for problem, took in times_of[entry].items():
        others = [t[problem] for other, t in times_of.items() if re.search(baseline, other) and problem in t]
        out += [min(others) / took] if others else []
    return out


def steps(_results, _pattern):
    """What each step is worth, from the records that there are: of one entry a step, the same on all matrices of the record."""
    rows = []
    for step, pattern, baseline, what, over, example in STEPS:
        if not (files := records_of(pattern)):
            continue
        results = merged(files)
        timed = [r for r in timed_rows(results) if not r["structure_reuse"] and not is_gone(r["entry"])]
        times_of = least_times(timed)
        if not (entry := best_entry(times_of, step)):
            continue
        mine, library = times_of[entry], speed_up(times_of, entry, "^vendor/")
        gain = times(geometric_mean(speed_up(times_of, entry, baseline))) if baseline else ""
        beside = "" if not library else times(library[0]) if len(library) == 1 else f"{times(geometric_mean(library))}, {times(min(library))}"
        memory = memory_of_library({"entry": e} for e in times_of)
        beside += f" (cuSPARSE, {memory})" if beside and memory else ""
        if library and all(map(busy, timed)):
            of_device = speed_up(least_times(timed, busy), entry, "^vendor/")
            beside += f"; by the device's time {times(geometric_mean(of_device))}, {times(min(of_device))}"
        shown = next((problem for problem in mine if problem[0] == example or len(mine) == 1), None)
        rows.append([f"[`{step}`]({step}/README.md)", what, str(len(mine)), named(entry), gain, over, beside,
                     f"{label(shown[0])}: {seconds(mine[shown])}" if shown else "", machine(results["context"], pattern)])
    titles = ["step", "what was multiplied", "matrices", "its entry", "speed, mean", "over", "over the fastest library: mean, worst", "a time",
              "machine"]
    return "\n".join(table_of(titles, rows)) + "\n"


def same_again(_results, folder):
    """What comparisons of equal runs say, from the records that tools/same-again.sh left in a folder of results/."""
    import same_again
    return same_again.tables(ROOT / "results" / folder) if (ROOT / "results" / folder).is_dir() else f"(No record yet: {folder}.)\n"


def machine(context, file):
    """The GPU, or what the folder of the record is called."""
    return context["gpu"] if "gpu_sms" in context else file.split("/")[0].replace("-", " ")


# What makes the table of each kind, from the results, REGEX and the matrices.
KINDS = {make.__name__: make for make in (table, scaling, chain, ratios, products, ladder, gather, counters, programs, steps, same_again)}
BLOCK = re.compile(rf"(<!-- ({'|'.join(KINDS)}) (\S+) (\S+)((?: \S+)*) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)


# The records that `stages run` shows beside its own times: step, record, matrix, and in short what was multiplied. Of an entry that
# is in several of them the first counts.
TOUR = (
    ("01_cpu_serial", "cpu-2-cores/cpu-pair.json", "data:d1", "SpGEMM, data:d1"),
    ("02_mpi", "cpu-16-cores/mpi-d1.json", "data:d1", "SpGEMM, data:d1, best of 1 to 16 ranks"),
    ("03_cuda_naive", GPU + "/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("04_cuda_shared", GPU + "/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("05_cuda_csr", GPU + "/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("06_cuda_register", GPU + "/d2_stream.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024, stream"),
    ("06_cuda_register", GPU + "/d2_chain_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024, chain"),
    ("07_spmm", GPU + "/spmm_n32_small.json", "gen:twin:arxiv", "SpMM, N = 32, arxiv"),
    ("08_spgemm_multigpu", GPU + "/spgemm.json", "gen:stencil:points=27,nx=60", "SpGEMM, 27-point"),
)


def tour():
    """data/records.tsv: the median of each entry of the steps, of several numbers of ranks the least."""
    lines = {}
    for step, file, matrix, what in TOUR:
        results = record.read(ROOT / "results" / file)
        where = machine(results["context"], file).removeprefix("NVIDIA ").removeprefix("cpu ")
        rows = [r for r in timed_rows(results) if r["entry"].startswith(step + "/") and r["problem"]["matrix"] == matrix and not r["structure_reuse"] and not is_gone(r["entry"])]
        for entry in dict.fromkeys(r["entry"] for r in rows):
            time = min(median(r) for r in rows if r["entry"] == entry)
            options = next(r["problem"]["options"] for r in rows if r["entry"] == entry) or "-"
            lines.setdefault(entry, f"{entry}\t{time:.4g}\t{what}\t{where}\t{matrix}\t{options}")
    head = ("# Times from the records under results/, which `stages run` shows beside its own: entry, seconds of a product (median), what was\n"
            "# multiplied, machine, and the matrix and options as results name them. tools/tables.py writes this file.\n")
    return head + "\n".join(lines.values()) + "\n"


# The highest clock of a GPU's SMs (its data sheet): an SM gives a wavefront a cycle.
HIGHEST_CLOCK = {GPU: 1.98e9, "nvidia-h200": 1.98e9}
# Seconds of the shortest kernel of all entries, by ncu on that GPU on 28 November 2026 (docs/lens.md).
SHORTEST_KERNEL = 2.08e-6


def rates():
    """data/rates.tsv: the best that is recorded of a GPU; nothing where its records are not there."""
    if not (ROOT / "results" / GPU).is_dir():
        return ""
    read = lambda name: record.read(ROOT / "results" / GPU / name)
    gathered, products = read("gather.json"), read("d2_single_graph.json")
    l2 = max(rate["bytes_per_second"] for rate in gathered["rates"])
    head = ("# The best that is recorded of a GPU, for the bounds of `stages lens`: GPU, bytes from L2 a second, SMs, wavefronts of\n"
            "# one SM a second, seconds of the shortest kernel. tools/tables.py writes this file.\n")
    return head + f"{gathered['device']}\t{l2:.4g}\t{products['context']['gpu_sms']}\t{HIGHEST_CLOCK[GPU]:.4g}\t{SHORTEST_KERNEL:.4g}\n"


@functools.cache
def merged(files):
    """The results of all parts, a tuple, which are of the same sources and of one GPU, those of smaller matrices first. Read once: pages ask
    hundreds of times."""
    def size(part):
        return min((row["problem"]["nnz"] for row in part.get("results", []) if "problem" in row), default=0)
    parts = sorted(map(record.read, files), key=size)
    of_part = lambda part, name: part.get("context", part).get(name)
    if len({(of_part(part, "source_digest"), of_part(part, "gpu")) for part in parts}) > 1:
        sys.exit(f"tables: one table would be of several versions: {', '.join(sorted(file.name for file in files))} are of different sources or GPUs; "
                 "measure all of them anew, or keep all as they were")
    for part in parts[1:]:
        kind = "cases" if "cases" in part else "results"
        parts[0][kind] += part[kind]
    return parts[0]


def filled(match, missing):
    """A block of a page with its table made anew. What has no record yet is added to `missing`."""
    start, kind, file, pattern, words, written, end = match.groups()
    parts = records_of(file)
    if not parts:
        missing.add(file)
    if not parts and kind != "ladder":
        return start + f"(No record yet: {file}.)\n" + end
    results = merged(parts) if parts and kind not in ("steps", "same_again") else None
    pairs = [word.partition("=") for word in words.split()]
    given = {name: text.replace("_", " ") for name, _, text in pairs if name in ("options", "ranks", "phases")}
    matrices = [word for word in words.split() if word.partition("=")[0] not in given]
    if results and "results" in results:
        fits = lambda r: (not is_gone(r["entry"]) and (not matrices or names_of(r) & set(matrices)) and r["problem"]["options"] == given.get("options", r["problem"]["options"])
                          and ("ranks" not in given or not r["mpi"] or str(r["ranks"]) in given["ranks"].split(",")))
        results = {**results, "results": list(filter(fits, results["results"]))}  # the record is kept for other blocks
    more = (written, file) if kind == "ladder" else (given["phases"].split(","),) if "phases" in given else ()
    return start + KINDS[kind](results, pattern, *more) + end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is not what the results say")
    check = parser.parse_args().check
    missing = set()
    pages = sorted(page for pattern in PAGES for page in ROOT.glob(pattern))
    made = {page: with_values(BLOCK.sub(lambda match: filled(match, missing), page.read_text()), page.relative_to(ROOT), missing) for page in pages}
    made |= {ROOT / "data/records.tsv": tour(), ROOT / "data/rates.tsv": rates()}
    stale = {file: new for file, new in made.items() if new != (file.read_text() if file.exists() else "")}
    for file, new in stale.items():
        if not check:
            file.write_text(new)
    for file in sorted(missing):
        print(f"{file}: no such record yet; the script that makes it is named in the README", file=sys.stderr)
    if stale:
        print(("not what the results say: " if check else "written: ") + ", ".join(str(file.relative_to(ROOT)) for file in stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
