#!/usr/bin/env python3
"""What the lens counts beside what ncu counts, for tools/lens-agreement.sh. Needs nothing beyond Python's own library.

    tools/agreement.py begin RECORD NAME=VALUE ...      a new record of ncu's half, with where it comes from; what RECORD has of the same
                                                        GPU, ncu and sources of a step is kept. gpu_source_digests: STEP:DIGEST,...
    ncu --query-metrics | tools/agreement.py choose RECORD      prints the metrics to ask for, of those that there are
    tools/agreement.py cases RECORD LIST                OPERATION MATRIX ENTRY of each case that RECORD does not have yet, a line each;
                                                        LIST: of stages list --json
    tools/agreement.py add RECORD OPERATION MATRIX ENTRY CODE DIRECTORY     what one case left (see tools/counters.py)
    tools/agreement.py end RECORD                       the record is complete, if all cases were reached; exit code 1 if one failed or
                                                        was not reached
    tools/agreement.py merge RECORD PROGRAM DIRECTORY FILE NAME=VALUE ...   counts the cases of RECORD with the lens of PROGRAM, and
                                                        writes both to FILE; exit code 1 if a case failed

Kernels are matched by the names of their functions: both compilers write template arguments in their own way. The launches of all
instances of a function template in one product are added up.
"""

import concurrent.futures
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import counters

# Threads that took part, by opcode: ncu prints `number (LDG: number; ...)`. LD and ST are of what nvcc knows no space.
OPCODES = "sass__thread_inst_executed_true_per_opcode"
LANES = {
    "load_lanes": ("LDG", "LD"),
    "store_lanes": ("STG", "ST"),
    "atomic_lanes": ("ATOMG", "ATOM", "REDG", "RED"),
    "shared_load_lanes": ("LDS",),
    "shared_store_lanes": ("STS",),
    "shared_atomic_lanes": ("ATOMS",),
}

# What is counted, by ncu's names; those in later tuples are added up. The lens has the same names (common/lens/json.cpp), but calls
# reductions, which return nothing, atomics: whether one is left to the compiler.
QUANTITIES = {
    "seconds": ("gpu__time_duration.sum",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "atomic_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"),
    "atomic_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"),
    "shared_load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "shared_store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    "shared_atomic_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",),
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "shared_load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",),
    "shared_store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",),
    "shared_load_requests": ("smsp__inst_executed_op_shared_ld.sum",),
    "shared_store_requests": ("smsp__inst_executed_op_shared_st.sum",),
    "instructions": ("smsp__inst_executed.sum",),
    "l2_sectors": ("lts__t_sectors_srcunit_tex.sum",),
    "opcodes": (OPCODES,),
}
ADDED = {"atomic_requests", "atomic_sectors"}  # the sum of their metrics; of others the first that there is counts

# Three matrices an entry, small enough for the executor. The first pattern that the operation and the entry's name match counts.
# 06_cuda_register and the entries for equal rows want matrices that fit into registers, and as many non-zeros in each row.
CASES = (
    (r"spmv .*(equal_rows|/chain_|/stream_|row_per_thread)", ("gen:fixed:n=256,zeros=0.8", "gen:fixed:n=200,zeros=0.5", "gen:fixed:n=128,zeros=0.9")),
    (r"spmv 0[34]_", ("gen:fixed:n=512,zeros=0.8", "gen:rmat:scale=10,edge_factor=8", "gen:fixed:n=200,zeros=0.5")),
    (r"spmv ", ("gen:fixed:n=512,zeros=0.8", "gen:uniform:n=20000,per_row=10", "gen:twin:arxiv,shrink=16")),
    (r"spmm ", ("gen:fixed:n=512,zeros=0.8", "gen:uniform:n=5000,per_row=10", "gen:twin:arxiv,shrink=16")),
    (r"spgemm 0[34]_", ("gen:fixed:n=256,zeros=0.8", "gen:rmat:scale=9,edge_factor=8", "gen:stencil:points=27,nx=6")),
    (r"spgemm ", ("gen:stencil:points=27,nx=12", "gen:uniform:n=5000,per_row=10", "gen:rmat:scale=10,edge_factor=8")),
)


SAME = ("gpu", "ncu")  # with these alike, what was counted before counts still, where the sources of the entry's step are the same
PART = ("date", "driver", "source_digest")  # and these each part has of its own
NOT_REACHED = "not reached yet; run the same command again"


def step_of(entry):
    """The two digits that its directory begins with."""
    return entry[:2]


def begin(path, origin):
    """A record to go on with: one that is there, if it has the same origin, or a new one. Each call that counts is one of its parts."""
    digests = dict(pair.split(":") for pair in origin["gpu_source_digests"].split(","))
    origin = {**origin, "gpu_source_digests": digests}
    before = counters.load(path) if path.exists() else {}
    other = [key for key in SAME if before.get(key) != origin[key]]
    record = {"schema_version": 1, **origin, "complete": False, "parts": [], "metrics": {}, "cases": []}
    if before and not other:
        earlier = before.get("gpu_source_digests", {})
        steps = {step for step, digest in digests.items() if earlier.get(step) == digest}
        kept = [case for case in before["cases"] if step_of(case["entry"]) in steps]
        record.update(metrics=before["metrics"], cases=kept, parts=before["parts"] if kept else [])
        if again := sorted({step_of(case["entry"]) for case in before["cases"]} - steps):
            print(f"counted anew, as its sources are others than those of {path}: step {', '.join(again)}", file=sys.stderr)
    elif before:
        print(f"all is counted anew: {path} has another {', '.join(other)}", file=sys.stderr)
    record["parts"].append({**{key: origin[key] for key in PART}, "counted": 0})
    counters.save(path, record)


def cases(listed):
    """(operation, matrix, entry) of each case: the first matrix of all entries, then the second, so that what a time limit leaves
    out is spread over the entries."""
    chosen = []
    for entry in listed["entries"]:
        if not entry["needs"]["gpu"] or entry["needs"]["several_ranks"] or entry["peer"]:
            continue
        matrices = next(matrices for pattern, matrices in CASES if re.match(pattern, f"{entry['operation']} {entry['name']}"))
        chosen.append([(entry["operation"], matrix, entry["name"]) for matrix in matrices])
    return [row[k] for k in range(3) for row in chosen]


def identity(case):
    return case["operation"], case["matrix"], case["entry"]


def left(path, listed):
    """The cases that are not counted yet. In the record they stand as not reached, and no case that there is no more."""
    record = counters.load(path)
    done = {identity(case): case for case in record["cases"] if case["status"] != "failed"}
    wanted = cases(listed)
    not_reached = {"status": "failed", "reason": NOT_REACHED}
    record["cases"] = [done.get(case) or {**dict(zip(("operation", "matrix", "entry"), case)), **not_reached} for case in wanted]
    counters.save(path, record)
    return [case for case in wanted if case not in done]


def choose(path, query):
    """Prints the metrics to ask for, and notes them in the record. If ncu could not say which there are, all first names. What was
    counted with other metrics is counted anew."""
    known = {word for line in query.splitlines() if "__" in (word := re.split(r'[",\s]', line.strip().lstrip('"'))[0])}
    record = counters.load(path)
    chosen = {}
    for name, metrics in QUANTITIES.items():
        found = [metric for metric in metrics if not known or metric in known or metric.split(".")[0] in known]
        if found:
            chosen[name] = found if name in ADDED else found[:1]
    if chosen != record["metrics"]:
        record.update(metrics=chosen, cases=[], parts=record["parts"][-1:])
    record["not_counted"] = [name for name in QUANTITIES if name not in chosen]
    counters.save(path, record)
    print(",".join(dict.fromkeys(metric for metrics in chosen.values() for metric in metrics)))


def function(name):
    """The name of a kernel's function: without namespaces, types and arguments."""
    return counters.shorter(name).split("::")[-1]


def lanes_of(cell):
    """The quantities of LANES in ncu's cell of OPCODES; None each where it names no opcode."""
    threads = {opcode: int(number.replace(",", "")) for opcode, number in re.findall(r"(\w+): ([\d,]+)", cell)}
    return {name: sum(threads.get(opcode, 0) for opcode in opcodes) if threads else None for name, opcodes in LANES.items()}


def launches(log, metrics):
    """The kernels that ncu profiled, by function: their launches, blocks, threads and counters added up."""
    counted = {name: several for name, several in metrics.items() if name != "opcodes"}
    single = {f"{name} {k}": metric for name, several in counted.items() for k, metric in enumerate(several)}
    shape = ("Block Size", "Grid Size", "Kernel Name")
    head, _, rows = counters.table(log)
    found = {}
    for row, (_, values) in zip(rows, counters.kernels(log, single)):
        block, grid, name = (row[head.index(word)] for word in shape)
        size = lambda text: math.prod(int(n) for n in re.findall(r"\d+", text))
        kernel = found.setdefault(function(name), {"name": function(name), "signatures": [], "launches": 0, "blocks": 0, "threads": 0})
        if name not in kernel["signatures"]:
            kernel["signatures"].append(name)
        kernel["launches"] += 1
        kernel["blocks"] += size(grid)
        kernel["threads"] += size(grid) * size(block)
        seen = {name: [values.get(f"{name} {k}") for k in range(len(several))] for name, several in counted.items()}
        if OPCODES in head:
            seen |= {name: [lanes] for name, lanes in lanes_of(row[head.index(OPCODES)]).items()}
        for name, numbers in seen.items():
            before = kernel.get(name, 0)
            kernel[name] = None if before is None or None in numbers else before + sum(numbers)
    return list(found.values())


def add(path, operation, matrix, entry, code, directory):
    record = counters.load(path)
    done = counters.case({}, entry, code, directory)
    if done["status"] == "good":
        done = {"status": "good", "kernels": launches((directory / "ncu.csv").read_text(errors="replace"), record["metrics"])}
    place = [identity(case) for case in record["cases"]].index((operation, matrix, entry))
    record["cases"][place] = {"operation": operation, "matrix": matrix, "entry": entry, **done}
    record["parts"][-1]["counted"] += 1
    counters.save(path, record)
    said = f"{len(done['kernels'])} kernels" if done["status"] == "good" else f"{done['status'].upper()}: {done['reason']}"
    print(f"{entry} {matrix}: {said}", file=sys.stderr)


def end(path):
    record = counters.load(path)
    not_reached = sum(case.get("reason") == NOT_REACHED for case in record["cases"])
    record["complete"] = not_reached == 0
    record["parts"] = [part for part in record["parts"] if part["counted"] > 0]
    counters.save(path, record)
    if not_reached:
        print(f"{not_reached} of {len(record['cases'])} cases are {NOT_REACHED}", file=sys.stderr)
    return 1 if any(case["status"] == "failed" for case in record["cases"]) else 0


# What the lens counted, by the names of QUANTITIES: the counters that are added up.
LENS = {
    **{f"{ours}_{what}": (f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum",)
       for ours, op in (("load", "ld"), ("store", "st"), ("atomic", "atom")) for what in ("requests", "sectors")},
    **{f"shared_{ours}_wavefronts": (f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",) for ours, op in (("load", "ld"), ("store", "st"), ("atomic", "atom"))},
    **{f"shared_{ours}_requests": (f"shared_{op}_requests",) for ours, op in (("load", "ld"), ("store", "st"))},
    **{f"{prefix}{ours}_lanes": (f"{space}_{op}_lanes",)
       for space, prefix in (("global", ""), ("shared", "shared_")) for ours, op in (("load", "ld"), ("store", "st"), ("atomic", "atom"))},
}


def device_of(gpu, directory):
    """How many SMs and how much L2 that GPU has, for the executor, as another record of the directory says; nothing where none does."""
    for file in sorted(directory.glob("*.json")):
        context = json.loads(file.read_text()).get("context", {})
        if context.get("gpu") == gpu and "gpu_sms" in context:
            return {"STAGES_DEVICE_SMS": context["gpu_sms"], "STAGES_DEVICE_L2": str(int(context["gpu_l2_bytes"]) >> 20)}
    return {}


def through_lens(program, file, case):
    """The kernels that the lens sees, by function, as launches() has those of ncu, and the bound; or why there are none."""
    sys.stderr.write(f"{case['entry']} {case['matrix']}\n")
    done = subprocess.run([program, "lens", case["entry"], "-m", case["matrix"], "--max-work", "1e9", "--json", file], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, None, counters.last_line(done.stderr)
    found = {}
    entry = json.loads(file.read_text())["entries"][0]
    for seen in entry["kernels"]:
        name = function(seen["name"])
        kernel = found.setdefault(name, {"name": name, "launches": 0, "blocks": 0, "threads": 0, **dict.fromkeys(LENS, 0)})
        for count in ("launches", "blocks", "threads"):
            kernel[count] += seen[count]
        for quantity, names in LENS.items():
            kernel[quantity] += sum(seen["counters"].get(name, 0) for name in names)
    return list(found.values()), entry.get("at_least"), None


def renamed(kernels):
    """The kernels of a record under the names that function() gives them now, added up."""
    found = {}
    for kernel in kernels:
        name = function(kernel["signatures"][0])
        if name not in found:
            found[name] = {**kernel, "name": name}
            continue
        for key, value in kernel.items():
            if key != "name":
                before = found[name].get(key)
                found[name][key] = None if before is None or value is None else before + value
    return list(found.values())


def merge(path, program, directory, out, origin):
    record = counters.load(path)
    failed = any(case["status"] == "failed" for case in record["cases"])
    device = device_of(record["gpu"], pathlib.Path(path).parent)  # some entries deal their work by it
    os.environ.update(device)
    origin["device"] = device
    good = [case for case in record["cases"] if case["status"] == "good"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as side_by_side:
        counted = list(side_by_side.map(lambda k: through_lens(program, pathlib.Path(directory) / f"{k}.json", good[k]), range(len(good))))
    if good and not any(kernels for kernels, _, _ in counted):
        print(f"lens-agreement: nothing was counted, and {out} is as it was: {counted[0][2]}", file=sys.stderr)
        return 2
    for case, (kernels, at_least, problem) in zip(good, counted):
        if kernels is None:
            case.update(status="failed", reason=f"the lens: {problem}")
            failed = True
            continue
        case["lens"] = kernels
        case["ncu"] = renamed(case.pop("kernels"))
        case["at_least"] = at_least
    lens = {key: record[key] for key in ("gpu", "driver", "ncu")}
    measured = {key: record[key] for key in ("source_digest", "gpu_source_digests", "date", "command", "parts", "metrics", "not_counted") if key in record}
    counters.save(out, {"schema_version": 1, **lens, **origin, "counted_on_gpu": measured, "complete": record["complete"], "cases": record["cases"]})
    print(f"written: {out}", file=sys.stderr)
    return 1 if failed or not record["complete"] else 0


def pairs_of(words):
    return dict(pair.split("=", 1) for pair in words)


def main(arguments):
    command, path, *rest = arguments
    if command == "begin":
        begin(pathlib.Path(path), pairs_of(rest))
    elif command == "choose":
        choose(path, sys.stdin.read())
    elif command == "cases":
        for case in left(path, counters.load(rest[0])):
            print(*case)
    elif command == "add":
        operation, matrix, entry, code, directory = rest
        add(path, operation, matrix, entry, int(code), pathlib.Path(directory))
    elif command == "end":
        return end(path)
    elif command == "merge":
        program, directory, out, *origin = rest
        return merge(path, program, directory, out, pairs_of(origin))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in {"begin", "choose", "cases", "add", "end", "merge"}:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
