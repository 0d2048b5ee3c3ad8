#!/usr/bin/env python3
"""Puts measured tables into the READMEs, so that none is typed.

A README holds a pair of lines

    <!-- table FILE REGEX [MATRIX ...] -->
    <!-- end table -->

and between them this script writes the times in FILE (a JSON of `stages run`, relative to the project's root) of the
entries whose name REGEX finds: a line an entry, a column a matrix (all of the file, or those named), with the machine.
FILE may be a pattern such as results/x/spmm_n32_*.json: of a study that was recorded in parts, on one machine.

A pair <!-- scaling FILE REGEX [MATRIX ...] --> and <!-- end scaling --> gets the rows that ran on several ranks: their clocks,
and the speed-up of each over the fastest serial entry of stage 01 in the same file
(step 8: over its fastest entry for one GPU, with the phases of those that ran on several).

A pair <!-- ratios FILE REGEX [MATRIX ...] --> and <!-- end ratios --> gets speeds over the fastest library: a line a matrix, a column
an entry. For times of CPUs, which say little elsewhere; ratios of one run say more. On a GPU each entry gets its mean over all
matrices, because there one entry is to win everywhere.

A pair <!-- gather FILE . --> and <!-- end gather --> gets the rates of `gather_bench --json FILE`.

A pair <!-- steps results . --> and <!-- end steps --> gets what each step is worth: a line for each measurement in STEPS below.

A pair <!-- order FILE . --> and <!-- end order --> gets what reordering the rows was worth: the record of the part `order` of
tools/spmm-study.sh. A pair <!-- locality FILE . --> and <!-- end locality --> gets what `order_bench --json FILE` counted.

A pair <!-- counters FILE REGEX --> and <!-- end counters --> gets what ncu counted: the record of tools/counters.sh, of the cases in whose
"matrix, options, entry" REGEX is found (as it holds no blanks, a dot stands for one).

A pair <!-- products FILE REGEX [MATRIX ...] --> and <!-- end products --> gets sparse products: rates beside the fastest
algorithm of the library, the percent of the limit (memory or L2, whichever takes longer) that the fastest of ours reaches, and its phases.

    tools/tables.py            writes all READMEs anew
    tools/tables.py --check    changes nothing; exit code 1 if one is not what the results say
"""

import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- (table|scaling|ratios|products|gather|counters|order|locality|steps) (\S+) (\S+)((?: \S+)*) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)


def seconds(value):
    """Three digits and a unit, as the program prints them."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= size * 0.9995 or unit == "ns":
            scaled = value / size
            return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f} {unit}"


def times(value):
    """A speed-up: "1.73x"."""
    if not math.isfinite(value) or value <= 0:
        return ""
    return "<0.01x" if value < 0.005 else f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}x"


def label(matrix):
    """The part of a spec that tells the matrices of a study apart."""
    match = re.fullmatch(r"gen:fixed:n=(\d+),zeros=0\.8", matrix)
    if match:
        return f"n = {match.group(1)}"
    return re.sub(r"^gen:twin:|^data:|\.mtx(\.gz)?$", "", matrix.rsplit("/", 1)[-1])


def share(value):
    """A part of what would be possible, in percent."""
    return "" if value is None else f"{100 * value:.0f} %"


def median(row):
    """The median time of a run, in seconds."""
    return row["seconds"]["run"]["median"]


def measured(row, name):
    """A metric of a row; None where it has none, or it is unknown."""
    return row["metrics"].get(name, {}).get("value")


def timed_rows(results):
    """The rows that have a time: of entries that passed their check."""
    for r in results["results"]:
        if r["status"] not in ("good", "wrong", "failed", "skipped"):
            sys.exit(f"tables: {r['entry']}: there is no status '{r['status']}'; write the record anew by `stages run --json`")
    return [r for r in results["results"] if r["status"] == "good" and "seconds" in r]


def table(results, pattern, wanted):
    """The Markdown table of one results file."""
    rows = [r for r in timed_rows(results) if re.search(pattern, r["entry"])]
    matrices = list(dict.fromkeys(r["problem"]["matrix"] for r in rows))
    if wanted:
        matrices = [m for m in matrices if m in wanted or label(m).replace(" ", "") in wanted]
    entries = list(dict.fromkeys(r["entry"] for r in rows if r["problem"]["matrix"] in matrices))
    time = {(r["entry"], r["problem"]["matrix"]): median(r) for r in rows}
    best = {m: min(t for (_, matrix), t in time.items() if matrix == m) for m in matrices}
    lines = ["| entry | " + " | ".join(label(m) for m in matrices) + " |", "|---" * (len(matrices) + 1) + "|"]
    for entry in entries:
        cells = []
        for matrix in matrices:
            value = time.get((entry, matrix))
            text = "" if value is None else seconds(value)
            cells.append(f"**{text}**" if value == best[matrix] else text)
        lines.append(f"| `{entry}` | " + " | ".join(cells) + " |")
    context = results["context"]
    options = sorted({r["problem"]["options"] for r in rows if r["problem"]["options"]})
    what = "; ".join([f"time of one product, {o}" for o in options] or ["time of one product"])
    machine = context.get("gpu", "")
    where = machine if "gpu_sms" in context else context["cpu"]
    launch = ", replayed as a CUDA graph" if context.get("gpu_launch") == "graph" else ""
    lines.append("")
    lines.append(f"({what}{launch}; medians; {where}, {context['date'][:10]}, sources {context['source_digest'][:12]}; fastest bold)")
    return "\n".join(lines) + "\n"


def exchanged(row):
    """What a product takes on several GPUs with bringing B from each to the others, which belongs to loading it. None where that is unknown."""
    parts = [measured(row, "distributed_seconds"), measured(row, "exchange_b_seconds")]
    return None if None in parts else sum(parts)


def scaling_columns(timed, on_gpus, in_one_place):
    """Titles of a table of ranks, and what stands under each of them for a row, given the fastest without ranks (None: there is none)."""
    known = lambda name: any(measured(r, name) is not None for r in timed)
    timed_as = lambda value, base=None: "" if value is None else seconds(value) + (f" ({times(median(base) / value)})" if base else "")
    clock = lambda name: lambda r, base: timed_as(measured(r, name), base)
    ratio = lambda name: lambda r, _: "" if measured(r, name) is None else f"{measured(r, name):.2f}"
    columns = {"entry": lambda r, _: f"`{r['entry']}`", "ranks": lambda r, _: str(r["ranks"]), "compute": clock("compute_seconds")}
    if on_gpus:
        columns["+ exchange of B"] = lambda r, base: timed_as(exchanged(r), base)
    else:
        columns["+ exchange"] = clock("distributed_seconds")
    columns |= {"root to root": clock("root_to_root_seconds"),
                "bytes moved": lambda r, _: f"{measured(r, 'bytes_moved') / 1e6:.1f} MB",
                "imbalance": ratio("imbalance")}
    if known("compute_imbalance"):  # records of before have none
        columns["in time"] = ratio("compute_imbalance")
    if in_one_place:
        columns["whole"] = lambda r, _: seconds(median(r))
    if known("to_host_share"):
        columns["C to the host"] = lambda r, _: timed_as(measured(r, "to_host_seconds"))
        columns["of the buses' speed"] = lambda r, _: share(measured(r, "to_host_share"))
    return columns


def scaling(results, pattern, wanted):
    """The Markdown tables of one results file with several numbers of ranks: a table a problem; of GPUs, then the phases of all."""
    context = results["context"]
    timed = timed_rows(results)
    ranked = [r for r in timed if r["mpi"] and re.search(pattern, r["entry"])]
    problem_of = lambda r: (r["problem"]["matrix"], r["problem"]["options"], r["problem"]["operation"], r["problem"]["type"])
    on_gpus = any(not r["mpi"] and re.search(pattern, r["entry"]) for r in timed)  # one against several
    columns = scaling_columns(timed, on_gpus, on_gpus and any(r["problem"]["options"] != "C distributed" for r in ranked))
    problems = [p for p in dict.fromkeys(problem_of(r) for r in timed if r["mpi"]) if not wanted or label(p[0]) in wanted]
    lines, shown = [], []
    for problem in problems:
        alone = [r for r in timed if problem_of(r) == problem and not r["mpi"] and not r["structure_reuse"]]
        bases = [r for r in alone if re.search(pattern, r["entry"])] if on_gpus else [r for r in alone if r["entry"].startswith("01_")]
        base = min(bases, key=median, default=None)
        named = f"`{base['entry']}` on one GPU" if base and on_gpus else "fastest serial entry"
        lines += [f"{label(problem[0])}, {problem[2]} {problem[3]}{', ' + problem[1] if problem[1] else ''}"
                  + (f"; {named} {seconds(median(base))}:" if base else ":"), "",
                  f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        rows = [r for r in ranked if problem_of(r) == problem]
        lines += ["| " + " | ".join(cell(r, base) for cell in columns.values()) + " |" for r in rows] + [""]
        shown += [(r, base) for r in rows]
    takes_turns = lambda r: int(context.get(f"ranks={r['ranks']}: gpus", r["ranks"])) < r["ranks"]
    if on_gpus:
        lines += phases_of_ranks([(r, base) for r, base in shown if r["ranks"] > 1 and not takes_turns(r)], context)
    counts = sorted({r["ranks"] for r in timed if r["mpi"]})
    copies = [f"{ranks} ranks {float(context[key]) / 1e9:.1f}" for ranks in counts if (key := f"ranks={ranks}: copy_bandwidth_bytes_per_second") in context]
    cores = next((value for key, value in context.items() if key.endswith(": cores")), "?")
    gpus = [f"{ranks} processes {context[key]}" for ranks in counts if (key := f"ranks={ranks}: gpus") in context]
    if gpus:
        lines.append(f"({context['gpu']}; GPUs: {', '.join(gpus)})")
    if any(takes_turns(r) for r in timed if r["mpi"]):
        lines.append("(Processes that share a GPU take turns: compute is then the longest time that one of them takes with the GPU to itself, "
                     "as it would on a GPU of its own.)")
    lines.append(f"({context['cpu']}, {cores} cores, {context['date'][:10]}, sources {context['source_digest'][:12]}; "
                 f"copy bandwidth in GB/s: {', '.join(copies)})")
    return "\n".join(lines) + "\n"


PHASES = ("analysis", "symbolic", "allocation", "numeric", "wait", "gather", "to host", "messages", "interleave")


def phases_of_ranks(rows, context):
    """The phases of products on several GPUs, and what the limit of one GPU, times their number, says of what they compute in. `rows`: each
    with the fastest on one GPU, or None."""
    if not rows:
        return []
    names = [name for name in PHASES if any(name in r["seconds"]["phases"] for r, _ in rows)]
    loads = {"B to its GPU": "upload_b_seconds", "between GPUs": "exchange_b_seconds"}
    parts = ", ".join(f"*{name}*" for name in names[names.index("gather") + 1:]) if "gather" in names else ""
    lines = ["Phases, the longest of all processes" + (f" ({parts} are parts of *gather*)" if parts else "") + "; what loading B takes; compute, of the limit:", "",
             f"| matrix | entry | ranks | {' | '.join([*names, *loads])} | of the limit |", "|---" * (len(names) + len(loads) + 4) + "|"]
    cell = lambda value: seconds(value) if value else ""
    for row, base in rows:
        cells = [cell(row["seconds"]["phases"].get(name)) for name in names] + [cell(measured(row, name)) for name in loads.values()]
        took = measured(row, "compute_seconds")
        cells.append(limit(base, context, took, row["ranks"]) if base and took else "")
        lines.append(f"| {label(row['problem']['matrix'])} | `{row['entry'].split('/')[1]}` | {row['ranks']} | {' | '.join(cells)} |")
    return lines + [""]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def ratios(results, pattern, wanted):
    """The Markdown tables of one results file, speeds over the fastest library: a table an operation."""
    timed = timed_rows(results)
    problem_of = lambda r: (r["problem"]["operation"], r["problem"]["type"], r["problem"]["options"])
    lines = []
    context = results["context"]
    on_gpu = "gpu_sms" in context
    for operation, number, options in dict.fromkeys(problem_of(r) for r in timed):
        rows = [r for r in timed if problem_of(r) == (operation, number, options)]
        time = {(r["entry"], r["problem"]["matrix"]): median(r) for r in rows}
        entries = [e for e in dict.fromkeys(r["entry"] for r in rows) if re.search(pattern, e) and not e.startswith("vendor/")]
        matrices = [m for m in dict.fromkeys(r["problem"]["matrix"] for r in rows) if not wanted or label(m) in wanted]
        lines += [f"{operation} {number}{', ' + options if options else ''}:", "",
                  "| matrix | " + " | ".join(f"`{e.split('/')[1]}`" for e in entries) + " | against |", "|---" * (len(entries) + 2) + "|"]
        best, speeds = [], {}
        for matrix in matrices:
            peers = {e: t for (e, m), t in time.items() if m == matrix and e.startswith("vendor/")}
            if not peers:
                continue
            peer = min(peers, key=peers.get)
            speed = {e: peers[peer] / time[e, matrix] for e in entries if (e, matrix) in time}
            best.append(max(speed.values()))
            cell = lambda e: "" if e not in speed else ("**{}**" if speed[e] == best[-1] else "{}").format(
                f"{speed[e]:.2f}" if speed[e] >= 0.01 else "<0.01")
            name = peer.split("/")[1] if on_gpu else peer.split("/")[1].split("_")[0]
            lines.append(f"| {label(matrix)} | " + " | ".join(cell(e) for e in entries) + f" | {name} |")
            for e in speed:
                speeds.setdefault(e, []).append(speed[e])
        if on_gpu:
            means = [f"{geometric_mean(speeds[e]):.2f}" if len(speeds.get(e, [])) == len(best) else "" for e in entries]
            lines += ["| geometric mean | " + " | ".join(means) + " | |", ""]
        else:
            lines += ["", f"Geometric mean of the fastest: {geometric_mean(best):.2f}.", ""]
    if on_gpu:
        lines.append(f"(speed over the fastest of the library's algorithms, 1 is as fast; medians of one run; {context['gpu']}, "
                     f"{context['date'][:10]}, sources {context['source_digest'][:12]}; fastest bold)")
        return "\n".join(lines) + "\n"
    lines.append(f"(speed over the faster library, 1 is as fast; medians of one run; {context['cpu']}, one thread, {context['date'][:10]}, "
                 f"sources {context['source_digest'][:12]}; fastest bold; empty: beyond the limits of work or memory)")
    return "\n".join(lines) + "\n"


def limit(row, context, took, gpus=1):
    """Which limit the product of a row meets, and how many percent of the speed that it allows `gpus` GPUs reached that took so many seconds."""
    gathered = measured(row, "gather_bytes_per_second")
    if not gathered or "gpu_copy_bandwidth_bytes_per_second" not in context:
        return ""
    least = {"memory": measured(row, "memory_bytes_at_least") / float(context["gpu_copy_bandwidth_bytes_per_second"]),
             "L2": measured(row, "l2_bytes_at_least") / gathered}
    which = max(least, key=least.get)
    return f"{share(least[which] / gpus / took)} ({which})"


def products(results, pattern, wanted):
    """The Markdown tables of one results file of sparse products: rates and limits, then the phases of the fastest."""
    timed = [r for r in timed_rows(results) if r["problem"]["operation"] == "spgemm"]
    matrices = [m for m in dict.fromkeys(r["problem"]["matrix"] for r in timed) if not wanted or label(m) in wanted]
    entries = [e for e in dict.fromkeys(r["entry"] for r in timed) if re.search(pattern, e) and not e.startswith("vendor/")]
    rows = {(r["entry"], r["problem"]["matrix"]): r for r in timed}
    rate = lambda r: f"{r['gflops']:.{0 if r['gflops'] >= 99.5 else 1}f}"
    lines = ["| matrix | products | a result | " + " | ".join(f"`{e.split('/')[1]}`" for e in entries) + " | library | speed over it | of the limit |",
             "|---" * (len(entries) + 6) + "|"]
    phases = ["| matrix | whole | analysis | symbolic | allocation | numeric |", "|---" * 6 + "|"]
    speeds = []
    for matrix in matrices:
        ours = [rows[e, matrix] for e in entries if (e, matrix) in rows and not rows[e, matrix]["structure_reuse"]]
        peers = [r for r in timed if r["entry"].startswith("vendor/") and r["problem"]["matrix"] == matrix]
        if not ours:
            continue
        best = max(ours, key=lambda r: r["gflops"])
        peer = max(peers, key=lambda r: r["gflops"], default=None)
        speed = best["gflops"] / peer["gflops"] if peer else None
        speeds += [speed] if speed else []
        count = best["problem"]["multiplications"]
        lines.append(f"| {label(matrix)} | {count / 1e6:.1f} M | {count / max(best['result_nnz'], 1):.1f} | "
                     + " | ".join(rate(rows[e, matrix]) if (e, matrix) in rows else "" for e in entries)
                     + f" | {rate(peer) if peer else ''} | {f'{speed:.2f}' if speed else ''} | {limit(best, results['context'], median(best))} |")
        took = best["seconds"]["phases"]
        phases.append(f"| {label(matrix)} | {seconds(median(best))} | "
                      + " | ".join(seconds(took[p]) if p in took else "" for p in ("analysis", "symbolic", "allocation", "numeric")) + " |")
    if speeds:
        lines += ["", f"Geometric mean of the speed over the library: {geometric_mean(speeds):.2f}."]
    context = results["context"]
    where = context["gpu"] if "gpu_sms" in context else context["cpu"]
    types = "/".join(sorted({r["problem"]["type"] for r in timed}))
    return "\n".join(lines + ["", "Time and phases of the fastest of ours that counts anew:", ""] + phases
                     + ["", f"(GFLOP/s, two operations a product, {types}, whole calls; medians; library: the fastest algorithm; "
                        f"{where}, {context['date'][:10]}, sources {context['source_digest'][:12]})"]) + "\n"


def gather(results, _pattern, _wanted):
    """The Markdown table of a record of gather_bench: a line a size of B, a column a size of what is read of a row."""
    rate = {(r["b_bytes"], r["piece_bytes"]): r["bytes_per_second"] for r in results["rates"]}
    sizes, pieces = sorted({b for b, _ in rate}), sorted({piece for _, piece in rate})
    lines = ["| B | " + " | ".join(f"{piece} bytes" for piece in pieces) + " |", "|---" * (len(pieces) + 1) + "|"]
    for size in sizes:
        cells = [f"{rate[size, piece] / 1e12:.1f}" if (size, piece) in rate else "" for piece in pieces]
        lines.append(f"| {size / 1e6:.0f} MB | " + " | ".join(cells) + " |")
    apart = f"rows {results['stride']} bytes apart" if results["stride"] else "whole rows"
    lines += ["", f"(TB/s; {apart}; medians; {results['device']})"]
    return "\n".join(lines) + "\n"


def large(count):
    """A count with three digits: "12.3 M"."""
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if count >= size * 0.9995:
            scaled = count / size
            return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f}{unit}"
    return f"{count:.0f}"


def moved(count, time):
    """Bytes, and the rate at which they moved: "123 MB, 4.56 TB/s"."""
    amount = large(count)
    return f"{amount}{'' if amount[-1] in 'GMk' else ' '}B" + (f", {count / time / 1e12:.2f} TB/s" if time else "")


SECTOR = 32  # bytes

# The columns of what ncu counted: a head, the counters that it needs, and how they are shown. A counter of a case may be unknown.
COUNTERS = (
    ("time", ("seconds",), seconds),
    ("instructions", ("instructions",), large),
    ("threads each", ("thread_instructions", "instructions"), lambda threads, warps: f"{threads / warps:.1f}" if warps else ""),
    ("sectors a request", ("load_sectors", "load_requests"), lambda sectors, requests: f"{sectors / requests:.1f}" if requests else ""),
    ("L1 hits", ("load_sectors_hit", "load_sectors"), lambda hit, all_: f"{100 * hit / all_:.0f} %" if all_ else ""),
    ("L2 hits", ("l2_read_sectors_hit", "l2_read_sectors"), lambda hit, all_: f"{100 * hit / all_:.0f} %" if all_ else ""),
    ("of L2", ("l2_sectors", "seconds"), lambda sectors, time: moved(SECTOR * sectors, time)),
    ("of memory", ("dram_read_bytes", "dram_written_bytes", "seconds"), lambda read, written, time: moved(read + written, time)),
    ("warps of a busy SM", ("warps_active",), lambda share: f"{share:.0f} %"),
    ("of all SMs", ("warps_at_all_times",), lambda share: f"{share:.0f} %"),
)
# Where anything is added by atomics in shared memory, these too.
SHARED = (
    ("shared atomics", ("shared_atomics",), large),
    ("of them CAS", ("shared_cas",), large),
    ("shared wavefronts", ("shared_wavefronts",), large),
)


def counters(results, pattern, _wanted):
    """The Markdown table of a record of tools/counters.sh: a line a case and entry."""
    case = lambda c: ", ".join(filter(None, (c["matrix"], c["options"])))
    chosen = [c for c in results["cases"] if re.search(pattern, f"{case(c)}, {c['entry']}")]
    columns = COUNTERS + (SHARED if any(c.get("shared_atomics") or c.get("shared_cas") for c in chosen) else ())
    lines = ["| case | entry | " + " | ".join(head for head, _, _ in columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for c in chosen:
        name = ", ".join(filter(None, (label(c["matrix"]), c["options"])))
        if c["status"] == "good":
            cells = [show(*(c[need] for need in needs)) if all(need in c for need in needs) else "" for _, needs, show in columns]
        else:
            cells = ["not counted: " + c["reason"].replace("|", "/")] + [""] * (len(columns) - 1)
        lines.append(f"| {name} | `{c['entry']}` | " + " | ".join(cells) + " |")
    lines += ["", f"(all kernels of one product; time: of each kernel alone, under ncu; instructions: of warps; L1: global loads; L2: what the SMs asked of it, "
              f"its hits those of reads; warps: of what an SM holds while it has any, "
              f"and of what all SMs hold from a kernel's start to its end; {results['gpu']}, {results['ncu'].split(' (')[0].replace('Version', 'ncu')}, {results['date'][:10]}, sources {results['source_digest'][:12]})"]
    return "\n".join(lines) + "\n"


def percents(before, after):
    return f"{share(before)} to {share(after)}"


def order(results, _pattern, _wanted):
    """The Markdown table of a record with `balanced` and `balanced_reordered`: what the order gained, and what it cost."""
    timed = {(r["problem"]["matrix"], r["problem"]["options"], r["entry"]): r for r in timed_rows(results)}
    lines = ["| matrix | of B | fresh in a block | on the device | `balanced` | `balanced_reordered` | speed | ordering | pays after | over the library |",
             "|---" * 10 + "|"]
    for matrix, options in dict.fromkeys(key[:2] for key in timed):
        was, now = (timed.get((matrix, options, "07_spmm/" + name)) for name in ("balanced", "balanced_reordered"))
        if not was or not now:
            continue
        figures = {name: metric["value"] for name, metric in now["metrics"].items()}
        library = min((median(r) for (m, o, e), r in timed.items() if (m, o) == (matrix, options) and e.startswith("vendor/")), default=None)
        saved = median(was) - median(now)
        pays = f"{figures['order_seconds'] / saved:,.0f} products" if saved > 0 else "never"
        lines.append(f"| {label(matrix)} | {options} | {percents(figures['fresh_in_block_before'], figures['fresh_in_block'])} "
                     f"| {percents(figures['fresh_in_device_before'], figures['fresh_in_device'])} | {seconds(median(was))} | {seconds(median(now))} "
                     f"| {median(was) / median(now):.2f} | {seconds(figures['order_seconds'])} | {pays} "
                     f"| {f'{library / min(median(was), median(now)):.2f}' if library else ''} |")
    context = results["context"]
    lines += ["", f"(fresh: non-zeros that are the first to ask for their row of B, as the rows come and reordered; over the library: the faster "
              f"of the two over cuSPARSE's fastest; medians; {context['gpu']}, {context['date'][:10]}, sources {context['source_digest'][:12]})"]
    return "\n".join(lines) + "\n"


def locality(results, _pattern, _wanted):
    """The Markdown table of a record of order_bench: a line a matrix, a column a window."""
    windows = [f["window"] for f in results["orders"][0]["fresh"]]
    lines = ["| matrix | non-zeros | " + " | ".join(f"fresh, of {w:,} in turn" for w in windows) + " | ordering |", "|---" * (len(windows) + 3) + "|"]
    for line in results["orders"]:
        cells = [percents(f["before"], f["after"]) for f in line["fresh"]]
        lines.append(f"| {label(line['matrix'])} | {line['nnz'] / 1e6:.2f} M | " + " | ".join(cells) + f" | {seconds(line['seconds'])} |")
    lines += ["", f"(as the rows come, and reordered; ordering on one thread; {results['cpu']}, sources {results['source_digest'][:12]})"]
    return "\n".join(lines) + "\n"


# What each step is worth: step, record, matrix (empty: all of the record), entries that it is compared with, and in words
# what was multiplied, and with what it is compared.
LADDER = "SpMV, n = 1024, 80 % zeros"
STEPS = (
    ("01_cpu_serial", "cpu-2-cores/cpu-uniform.json", "", "vendor/", "SpGEMM, the course project's shape, C spread", "Eigen, GraphBLAS"),
    ("02_mpi", "cpu-16-cores/mpi-d1.json", "", "01_", "SpGEMM, the course project's pair, best of 1 to 16 ranks", "fastest serial entry"),
    ("03_cuda_naive", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "/dense_row_major", LADDER, "a thread per row"),
    ("04_cuda_shared", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "/dense_row_major", LADDER, "a thread per row"),
    ("05_cuda_csr", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "/dense_row_major", LADDER, "a thread per row"),
    ("05_cuda_csr", "nvidia-h200/spmv.json", "", "vendor/", "SpMV, graphs and meshes, mean", "cuBLAS, cuSPARSE"),
    ("06_cuda_register", "nvidia-h200/d2_chain_graph.json", "gen:fixed:n=1024,zeros=0.8", "/dense_row_major", LADDER + ", a chain", "a thread per row"),
    ("06_cuda_register", "nvidia-h200/d2_stream.json", "gen:fixed:n=1024,zeros=0.8", "/dense_row_major", LADDER + ", a stream", "a thread per row"),
    ("07_spmm", "nvidia-h200/spmm_n32_*.json", "", "vendor/", "SpMM, 13 graphs, N = 32, mean", "cuSPARSE, best of 4"),
    ("07_spmm", "nvidia-h200/spmm_n256_*.json", "", "vendor/", "SpMM, 13 graphs, N = 256, mean", "cuSPARSE, best of 4"),
    ("08_spgemm_multigpu", "nvidia-h200/spgemm.json", "", "vendor/", "SpGEMM, matrices squared, mean", "cuSPARSE, best of 3"),
)


def speed_up(rows, step, baseline):
    """The rows of the step that are fastest on their matrix, and the mean of their speeds over the fastest of the baseline."""
    fastest, ratio = [], []
    for matrix in dict.fromkeys(r["problem"]["matrix"] for r in rows):
        here = [r for r in rows if r["problem"]["matrix"] == matrix]
        ours = min((r for r in here if r["entry"].startswith(step)), key=median, default=None)
        other = min((r for r in here if re.search(baseline, r["entry"])), key=median, default=None)
        if ours and other:
            fastest.append(ours)
            ratio.append(median(other) / median(ours))
    return fastest, times(geometric_mean(ratio))


def steps(_results, _pattern, _wanted):
    """What each step is worth, from the records that there are."""
    lines = ["| step | what was multiplied | its fastest entry | time | speed-up | over | fastest library | machine |", "|---" * 8 + "|"]
    for step, record, wanted, baseline, what, over in STEPS:
        files = sorted((ROOT / "results").glob(record))
        if not files:
            continue
        results = merged(files)
        rows = [r for r in timed_rows(results) if not r["structure_reuse"] and (not wanted or r["problem"]["matrix"] == wanted)]
        fastest, gain = speed_up(rows, step, baseline)
        if not fastest:
            continue
        entries = [r["entry"].split("/")[1] for r in fastest]
        time = seconds(median(fastest[0])) if len(fastest) == 1 else ""
        machine = results["context"]["gpu"] if "gpu_sms" in results["context"] else record.split("/")[0].replace("-", " ")
        lines.append(f"| [`{step}`]({step}/README.md) | {what} | `{max(entries, key=entries.count)}` | {time} | {gain} | {over} "
                     f"| {speed_up(rows, step, 'vendor/')[1]} | {machine} |")
    return "\n".join(lines) + "\n"


# The records that `stages run` shows beside its own times: step, record, matrix, and in short what was multiplied. Of an entry that
# is in several of them the first counts.
TOUR = (
    ("01_cpu_serial", "cpu-2-cores/cpu-pair.json", "data:d1", "SpGEMM, data:d1"),
    ("02_mpi", "cpu-16-cores/mpi-d1.json", "data:d1", "SpGEMM, data:d1"),
    ("03_cuda_naive", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("04_cuda_shared", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("05_cuda_csr", "nvidia-h200/d2_single_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024"),
    ("06_cuda_register", "nvidia-h200/d2_stream.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024, stream"),
    ("06_cuda_register", "nvidia-h200/d2_chain_graph.json", "gen:fixed:n=1024,zeros=0.8", "SpMV, n = 1024, chain"),
    ("07_spmm", "nvidia-h200/spmm_n32_small.json", "gen:twin:arxiv", "SpMM, N = 32, arxiv"),
    ("08_spgemm_multigpu", "nvidia-h200/spgemm.json", "gen:stencil:points=27,nx=60", "SpGEMM, 27-point"),
)


def tour():
    """data/records.tsv: the median of each entry of the steps, of several numbers of ranks the least."""
    lines = {}
    for step, record, matrix, what in TOUR:
        results = json.loads((ROOT / "results" / record).read_text())
        gpu = results["context"].get("gpu", "") if "gpu_sms" in results["context"] else ""
        machine = gpu.replace("NVIDIA ", "") or record.split("/")[0].removeprefix("cpu-").replace("-", " ")
        rows = [r for r in timed_rows(results) if r["entry"].startswith(step + "/") and r["problem"]["matrix"] == matrix
                and not r["structure_reuse"]]
        for entry in dict.fromkeys(r["entry"] for r in rows):
            time = min(median(r) for r in rows if r["entry"] == entry)
            lines.setdefault(entry, f"{entry}\t{time:.4g}\t{what}\t{machine}")
    head = ("# Times from the records under results/, which `stages run` shows beside its own: entry, seconds of a product (median), what was\n"
            "# multiplied, machine. tools/tables.py writes this file.\n")
    return head + "\n".join(lines.values()) + "\n"


def merged(files):
    """The results of all parts, those of smaller matrices first, with the context of the first."""
    def size(part):
        return min((row["problem"]["nnz"] for row in part.get("results", []) if "problem" in row), default=0)
    parts = sorted((json.loads(file.read_text()) for file in files), key=size)
    for part in parts[1:]:
        parts[0]["results"] += part["results"]
    return parts[0]


def main():
    check = sys.argv[1:] == ["--check"]
    stale, missing = [], set()
    for readme in sorted([*ROOT.glob("README.md"), *ROOT.glob("[0-9][0-9]_*/README.md")]):
        text = readme.read_text()

        def fill(match):
            start, kind, file, pattern, matrices, _, end = match.groups()
            parts = sorted(ROOT.glob(file))
            if not parts:
                missing.add(file)
                return start + f"(No record yet: {file}.)\n" + end
            make = {"table": table, "scaling": scaling, "ratios": ratios, "products": products, "gather": gather, "counters": counters, "order": order, "locality": locality, "steps": steps}[kind]
            return start + make(merged(parts) if kind != "steps" else None, pattern, matrices.split()) + end

        new = BLOCK.sub(fill, text)
        if new != text:
            stale.append(str(readme.relative_to(ROOT)))
            if not check:
                readme.write_text(new)
    records = ROOT / "data" / "records.tsv"
    if (new := tour()) != (records.read_text() if records.exists() else ""):
        stale.append(str(records.relative_to(ROOT)))
        if not check:
            records.write_text(new)
    for file in sorted(missing):
        print(f"{file}: no such record yet; the script that makes it is named in the README", file=sys.stderr)
    if stale:
        print(("not what the results say: " if check else "written: ") + ", ".join(stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
