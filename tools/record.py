#!/usr/bin/env python3
"""Records of measurements: what results/ keeps of a file that `stages run --json` wrote, and how it is read again.

    tools/record.py pack FILE ...         makes records of these files, in place; what is one already stays as it is
    tools/record.py show FILE [REGEX]     prints a record's rows, or those in whose matrix or entry REGEX is found, with their phases

A record holds of each row what tables, pictures and comparisons need, and no sample: under "times" the median, its quartiles, how well it
is known and the number of samples, in the order that the record's own "times" names; the time of each phase; the entry's own
figures, whose names stand with the entry. What all rows of a problem or of an entry have in common is said once, under "problems" (a row has
the number of its own) and "entries"; what most rows have (USUAL) is not said. GFLOP/s follow from the times, and
are made again when a record is read. Other JSON, such as what ncu counted, keeps its fields, with rounded numbers. Each row is a line.

Needs nothing beyond Python's own library.
"""

import errno
import json
import math
import os
import pathlib
import re
import sys

# Significant digits, by name; of all other numbers DIGITS.
DIGITS = 7
OF_NAME = {"q1": 5, "q3": 5, "noise": 4, "bandwidth_share": 4, "prepare": 5, "prepare_noise": 2, "busy_noise": 4}
TIMES = ("median", "q1", "q3", "noise", "samples", "processes", "busy", "busy_noise", "prepare", "prepare_noise", "bandwidth_share", "model_bytes",
         "speedup_previous", "speedup_peer", "break_even_products", "break_even_known")
OF_RUN = ("median", "q1", "q3", "low", "high", "noise", "samples", "processes")  # older records have the ends of the interval, too
USUAL = {"idea": "", "previous": "", "peer": False, "structure_reuse": False, "status": "good", "reason": "", "note": "", "simulated": False, "mpi": False, "ranks": 1}
USUAL_OF_PROBLEM = {"options": "", "products": 1, "result_nnz": 0, "sums_not_judged": 0}
OF_PROBLEM = ("operations", "result_nnz", "rows_checked", "sums_not_judged")
OF_ENTRY = ("idea", "previous", "peer", "structure_reuse", "simulated", "mpi")


def rounded(value, digits=DIGITS):
    """All numbers in it with so many digits, and more of what would lie between two numbers of three digits then; whole ones as they are."""
    if isinstance(value, dict):
        return {name: rounded(of, OF_NAME.get(name, digits)) for name, of in value.items()}
    if isinstance(value, list):
        return [rounded(of, digits) for of in value]
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    if value.is_integer():
        return int(value)
    few = float(f"{value:.{digits}g}")
    between = float(f"{few:.3e}") == few and "5e" in f"{few:.3e}"
    return rounded(value, digits + 1) if between and few != value else few


def said_of(row):
    """All that is kept of a row, by name."""
    said = {name: row[name] for name in USUAL if name in row}
    if "check" in row:
        said |= {"rows_checked": row["check"]["rows_checked"], "sums_not_judged": row["check"].get("sums_not_judged", 0)}
    if "seconds" in row:
        seconds, run = row["seconds"], row["seconds"]["run"]
        busy = seconds.get("busy", {})
        times = run | row | seconds | {"samples": len(run["samples"]), "processes": max(1, len(run["processes"])), "busy": busy.get("median"),
                                       "busy_noise": busy.get("noise")}
        said |= {"times": list(rounded({name: times[name] for name in TIMES}).values()), "phases": rounded(row["seconds"]["phases"]),
                 "operations": rounded(row["operations"]), "result_nnz": row["result_nnz"]}
    return said | {"metrics": rounded({name: metric["value"] for name, metric in row["metrics"].items()}, 6)}


def packed(results):
    """The record of results as `stages run --json` writes them; a record as it is; of anything else all, rounded."""
    if {"problems", "choices", "wanted"} & results.keys():  # "wanted": of verify*.json, which scripts read with grep
        return results
    if not {"context", "results"} <= results.keys():
        return rounded(results)
    problems, entries, rows, numbers = [], {}, [], {}
    for row in results["results"]:
        said = said_of(row)
        number = numbers.setdefault(json.dumps(row["problem"]), len(problems))
        if number == len(problems):
            problems.append(dict(row["problem"]))
        problem, entry = problems[number], entries.setdefault(row["entry"], {})
        names = entry.setdefault("metrics", [])
        names += [name for name in said["metrics"] if name not in names]
        said["metrics"] = [said["metrics"].get(name) for name in names]
        kept = {name: of for name, of in said.items() if name not in OF_ENTRY + OF_PROBLEM and of != USUAL.get(name) and of not in ([], {})}
        kept |= {name: said[name] for name in OF_ENTRY if entry.setdefault(name, said[name]) != said[name]}
        kept |= {name: said[name] for name in OF_PROBLEM if name in said and ("times" not in said or problem.setdefault(name, said[name]) != said[name])}
        rows.append({"entry": row["entry"], "problem": number} | kept)
    entries = {name: {of: value for of, value in entry.items() if value != USUAL.get(of) and value != []} for name, entry in entries.items()}
    problems = [{of: value for of, value in problem.items() if value != USUAL_OF_PROBLEM.get(of)} for problem in problems]
    rest = {name: of for name, of in results.items() if name != "results"}
    return rest | {"times": list(TIMES), "entries": entries, "problems": problems, "results": rows}


def unpacked(record):
    """A record in the form that it was made from, but for samples, of which there is a number."""
    if "choices" in record:
        times = lambda of: {kind: {name: t for name, t in zip(record["choices"], of[kind]) if t is not None} for kind in ("seconds", "again") if of.get(kind)}
        return {**record, "matrices": [{**m, **times(m)} for m in record["matrices"]]}
    if "problems" not in record:
        return record
    rows = []
    for kept in record["results"]:
        problem, entry = USUAL_OF_PROBLEM | record["problems"][kept["problem"]], record["entries"][kept["entry"]]
        of_all = {name: problem.pop(name) for name in OF_PROBLEM if name in problem}
        row = USUAL | (of_all if "times" in kept else {}) | entry | kept | {"problem": problem}
        row["metrics"] = {name: {"value": value} for name, value in zip(entry.get("metrics", []), kept.get("metrics", []))}
        if "times" in kept:
            times = dict(zip(record["times"], row.pop("times"), strict=True))
            busy = {"median": times.pop("busy", None), "noise": times.pop("busy_noise", None)}
            row["seconds"] = {"prepare": times.pop("prepare"), "prepare_noise": times.pop("prepare_noise", None), "phases": row.pop("phases", {}),
                              **({"busy": busy} if busy["median"] else {})}
            row["seconds"]["run"] = {name: times.pop(name) for name in OF_RUN if name in times}
            row |= times | {"gflops": row["operations"] / problem["products"] / row["seconds"]["run"]["median"] / 1e9}
        rows.append(row)
    return {name: of for name, of in record.items() if name not in ("times", "entries", "problems")} | {"results": rows}


def read(path):
    """The record at `path`, or what `stages run --json` wrote there, in the form of the latter."""
    return unpacked(json.loads(pathlib.Path(path).read_text()))


def text_of(record):
    """JSON with a line for each field, and for each element of a field that has several."""
    dump = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    fields = []
    for name, value in record.items():
        if isinstance(value, dict) and value:
            value = "{\n" + ",\n".join(f"{dump(key)}:{dump(of)}" for key, of in value.items()) + "}"
        elif isinstance(value, list) and value and not isinstance(value[0], str):
            value = "[\n" + ",\n".join(map(dump, value)) + "]"
        else:
            value = dump(value)
        fields.append(f"{dump(name)}:{value}")
    return "{" + ",\n".join(fields) + "}\n"


def write(path, text):
    """Writes the file whole, or leaves what was there. A link is followed, and what may not be written is not replaced. Raises OSError."""
    place = pathlib.Path(path).resolve()
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8", errors="replace", newline="")  # a name need be no text
        new.replace(place)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def pack(path):
    """Makes a record of the file."""
    results = json.loads(path.read_text())
    made = packed(results)
    if made is not results:
        write(path, text_of(made))


def show(path, pattern):
    """The rows in a table of plain text."""
    from tables import label, seconds
    rows = [("matrix", "entry", "ranks", "time", "\u00b1", "remark")]
    for row in read(path)["results"]:
        problem, run = row["problem"], row.get("seconds", {}).get("run")
        if re.search(pattern, row["entry"]) or re.search(pattern, problem["matrix"]):
            noise = f"{100 * run['noise']:.1f} %" if run and run["noise"] is not None else ""
            phases = (f"{name} {seconds(time)}" for name, time in row["seconds"]["phases"].items()) if run else ()
            rows.append((", ".join(filter(None, (label(problem["matrix"]), problem["options"]))), row["entry"], str(row["ranks"]), seconds(run["median"]) if run else "", noise,
                         ", ".join(filter(None, (row["note"], *phases))) if row["status"] == "good" else f"{row['status']}: {row['reason']}"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows)


def main(words):
    if len(words) < 2 or words[0] not in ("pack", "show") or (words[0] == "show" and len(words) > 3):
        print(__doc__, file=sys.stderr)
        return 2
    wrong = {"pack": "is nothing to make a record of", "show": "is no record of a run"}[words[0]]
    try:
        if words[0] == "show":
            print(show(words[1], words[2] if len(words) > 2 else ""))
            return 0
        for path in words[1:]:
            pack(pathlib.Path(path))
        return 0
    except re.error as error:
        fault = f"{words[2]}: is no regular expression: {error}; escape what is meant as it stands by a backslash"
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}; give a file that `stages run --json` wrote"
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        fault = f"{words[1] if words[0] == 'show' else path}: {wrong} ({type(error).__name__}: {error}); give a file that `stages run --json` wrote"
    print(f"record: {fault}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
