#!/usr/bin/env python3
"""Reads what ncu (Nsight Compute) counted, for tools/counters.sh: CSV in, JSON out. Needs nothing beyond Python's own library.

    ncu --query-metrics | tools/counters.py begin RECORD NAME=VALUE ...
                                     a new record, with where it comes from; prints the metrics to ask for, of those that there are
    tools/counters.py add RECORD MATRIX OPTIONS ENTRY CODE DIRECTORY
    tools/counters.py end RECORD     the record is complete; exit code 1 if a case failed

`add` takes ncu's exit code (77: the program skipped the case, which is recorded as such) and a directory with what one case left: ncu.csv (ncu --csv --page raw --log-file), said.txt (what ncu and
the program said) and run.json (stages run --json). A case counts as good only if the program itself called its one
entry good, so its result was right, and if ncu saw a kernel; else it is recorded as failed, with the reason.

A record holds for each case the sums over all kernels of one product, and the same for each kernel by name. Whatever can be
added up is taken as a count, and rates are made of the sums where they are shown (tools/tables.py): a mean of percentages would
give a kernel of a microsecond the weight of one of a millisecond. Percentages of warps alone come as such, and are weighted
by the time of each kernel.
"""

import csv
import json
import pathlib
import re
import sys

from record import packed, text_of, write

# What is counted, and what ncu calls it; where there are several names, the first that this ncu knows for this GPU.
QUANTITIES = {
    "seconds": ("gpu__time_duration.sum",),
    "instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),  # of warps
    "thread_instructions": ("smsp__thread_inst_executed.sum",),
    "warps_active": ("sm__warps_active.avg.pct_of_peak_sustained_active",),  # of what an SM can hold, while it has any
    "warps_at_all_times": ("sm__warps_active.avg.pct_of_peak_sustained_elapsed",),  # of what all SMs can hold, until the kernel ends
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "load_sectors_hit": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",),
    "l2_sectors": ("lts__t_sectors_srcunit_tex.sum",),  # reads, writes and atomics that the SMs sent to L2
    "l2_read_sectors": ("lts__t_sectors_srcunit_tex_op_read.sum",),
    "l2_read_sectors_hit": ("lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_written_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "shared_atomics": ("smsp__inst_executed_op_shared_atom.sum",),  # of warps
    "shared_cas": ("smsp__inst_executed_op_shared_atom_dot_cas.sum",),  # of them compare-and-swaps
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "shared_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",),
}
# Of SpMV these too: what the explanations of steps 3 to 6 rest on. They cost ncu further passes, so the others leave them out.
OF_SPMV = {
    "load_tag_wavefronts": ("l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",),  # passes of L1 over the tags of global loads
    "load_set_conflicts": ("l1tex__t_set_conflicts_pipe_lsu_mem_global_op_ld.sum",),  # lines of one load that fall into one set
    "data_wavefronts": ("l1tex__data_pipe_lsu_wavefronts.sum",),  # passes over the data, of global, local and shared memory
    "local_loads": ("smsp__inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_ld.sum"),  # of warps
    "local_stores": ("smsp__inst_executed_op_local_st.sum", "smsp__sass_inst_executed_op_local_st.sum"),
    "local_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",),
    "local_load_sectors_hit": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum",),
    # Warps that wait, for each instruction issued: for data of global or local memory, and for a place in the queue of loads.
    "waits_for_data": ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",),
    "waits_for_queue": ("smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",),
    "registers": ("launch__registers_per_thread",),
}
ALL_SKIPPED = 77  # the exit code of stages run where nothing could run: too little memory on this GPU
BY_TIME = {"warps_active", "warps_at_all_times", "waits_for_data", "waits_for_queue"}
LARGEST = {"registers"}  # of several kernels

SECONDS = {"s": 1, "sec": 1, "second": 1, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9}
PREFIX = {"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Fault(Exception):
    pass


def number(text, unit):
    """A cell of ncu in its base unit: seconds, bytes, sectors, instructions, percent. None where ncu has no value."""
    text, unit = text.strip().replace(",", ""), unit.strip()
    try:
        value = float(text)
    except ValueError:
        return None  # "n/a", "(!) n/a", "no data"
    prefix = re.fullmatch(r"([KkMGT])(byte|B|sector|inst|request|cycle)s?", unit)
    return value * (PREFIX[prefix[1]] if prefix else SECONDS.get(unit, 1))


def shorter(name):
    """The name of a kernel without its types and arguments: stages::multiply."""
    name = re.sub(r"\(anonymous namespace\)::|(?<!\w)<?unnamed>::|\(anonymous\)::|->", "", name)
    plain, depth = "", 0
    for letter in name:
        depth -= letter == ">"
        if depth == 0 and letter not in "<>":
            if letter == "(":
                break
            plain += letter
        depth += letter == "<"
    return (plain.split() or [name])[-1]


def table(text):
    """ncu's table among the lines of a log: its head, its units, and a row a launch; all empty where there is none."""
    lines = text.splitlines()
    heads = [k for k, line in enumerate(lines) if line.startswith('"ID",') and '"Kernel Name"' in line]
    if not heads:
        return [], [], []
    head, units, *rows = csv.reader(line for line in lines[heads[-1]:] if line.startswith('"'))
    return head, units, rows


def kernels(text, metrics):
    """The kernels that ncu profiled, in the order of their launches: (name, {quantity: value or None})."""
    head, units, rows = table(text)
    place = {name: head.index(metric) for name, metric in metrics.items() if metric in head}
    if short := [row for row in rows if len(row) != len(head)]:
        raise Fault(f"ncu's table has a line of {len(short[0])} cells under a head of {len(head)}")
    return [(shorter(row[head.index("Kernel Name")]), {name: number(row[k], units[k]) for name, k in place.items()}) for row in rows]


def total(launches):
    """The sums over launches; what is unknown of one is unknown of all."""
    sums = {"launches": len(launches)}
    times = [values.get("seconds") or 0 for values in launches]
    for name in QUANTITIES | OF_SPMV:
        seen = [values.get(name) for values in launches]
        if not seen or None in seen or (name in BY_TIME and not sum(times) > 0):
            continue
        of_time = sum(value * time for value, time in zip(seen, times)) / sum(times) if name in BY_TIME else 0
        sums[name] = of_time if name in BY_TIME else max(seen) if name in LARGEST else sum(seen)
    return sums


def last_line(*texts):
    """ncu's last complaint, or else the last line that anybody said."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    complaints = [line for line in lines if line.startswith("==ERROR==")]
    return (complaints or lines or ["nothing was said"])[-1]


def case(metrics, entry, code, directory):
    """What one case left, as it is recorded."""
    def read(name):
        path = directory / name
        return path.read_text(errors="replace") if path.exists() else ""

    log, said = read("ncu.csv"), read("said.txt")
    if code in (124, 137):
        return {"status": "failed", "reason": f"took too long; {last_line(log, said)}"}
    if code not in (0, ALL_SKIPPED):
        return {"status": "failed", "reason": last_line(log, said)}
    try:
        rows = json.loads(read("run.json") or "{}").get("results", [])
        if [(row["entry"], row["status"]) for row in rows] == [(entry, "skipped")]:
            return {"status": "skipped", "reason": rows[0].get("reason", "")}
        seen = kernels(log, metrics)
    except (json.JSONDecodeError, Fault) as fault:
        return {"status": "failed", "reason": str(fault)}
    if [row["entry"] for row in rows] != [entry]:
        return {"status": "failed", "reason": f"the program ran {len(rows)} entries, not {entry} alone"}
    if rows[0]["status"] != "good":
        return {"status": "failed", "reason": f"{rows[0]['status']}: {rows[0].get('reason', '')}"}
    if not seen:
        return {"status": "failed", "reason": f"ncu saw no kernel; {last_line(log, said)}"}
    names = dict.fromkeys(name for name, _ in seen)
    return {"status": "good", **total([values for _, values in seen]),
            "kernels": [{"name": name, **total([values for other, values in seen if other == name])} for name in names]}


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def save(path, record):
    """Whole or not at all: who is killed here leaves the record as it was."""
    write(path, text_of(packed(record)))


def chosen(asked, query):
    """The metrics to ask for, by quantity. If ncu could not say which there are, all first names."""
    words = {re.split(r'[",\s]', line.strip().lstrip('"'))[0] for line in query.splitlines()}
    known = {word for word in words if "__" in word}
    # What ncu knows of a launch (launch__*) it always has, and does not list among the counters.
    is_there = lambda metric: not known or {metric, metric.split(".")[0]} & known or metric.startswith("launch__")
    return {name: next(filter(is_there, metrics)) for name, metrics in asked.items() if any(map(is_there, metrics))}


def main(arguments):
    command, path, *rest = arguments
    if command == "begin":
        record = {"schema_version": 1, **dict(pair.split("=", 1) for pair in rest), "complete": False}
        asked = QUANTITIES | (OF_SPMV if record["operation"] == "spmv" else {})
        metrics = chosen(asked, sys.stdin.read())
        save(path, record | {"metrics": metrics, "not_counted": [name for name in asked if name not in metrics], "cases": []})
        print(",".join(metrics.values()))
    elif command == "add":
        matrix, options, entry, code, directory = rest
        record = load(path)
        done = case(record["metrics"], entry, int(code), pathlib.Path(directory))
        record["cases"].append({"matrix": matrix, "options": options, "entry": entry, **done})
        save(path, record)
        print(f"{matrix} {options} {entry}: " + (f"{done['launches']} launches" if done["status"] == "good" else f"{done['status'].upper()}: {done['reason']}"), file=sys.stderr)
    elif command == "end":
        record = load(path)
        record["complete"] = True
        save(path, record)
        return 1 if any(done["status"] == "failed" for done in record["cases"]) else 0
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"begin", "add", "end"}:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
