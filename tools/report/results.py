"""Reads the JSON files of `stages run` and the records made of them, and says in one line what is wrong with a file that is none.

Of a file everything that the page needs is looked at here, so that the sections may rely on it.
"""

import collections
import dataclasses
import json
import math
import os
import pathlib
import types

import record

SCHEMA_VERSION = 1
OPERATIONS = ("spmv", "spmm", "spgemm")
STATUSES = ("good", "wrong", "failed", "skipped")
ANEW = "; write the file anew by `stages run --json`"
KINDS = {"text": (str, "a text"), "flag": (bool, "true or false"), "number": ((int, float, type(None)), "a number"), "whole": (int, "a whole number"),
         "list": (list, "a list"), "object": (dict, "an object with named fields"), "samples": ((list, int), "a list of numbers")}


class Bad(Exception):
    """Input that cannot be used: what, where, and how to mend it, in one line."""


class Another(Bad):
    """The file is sound, and records something else than a run."""


def fields(value, where, /, **kinds):
    """The fields of a JSON object that are named, each of its kind. A number is NaN for the null that stands for unknown; a whole number is at
    least 0. What is missing or of another kind is Bad, with the place in the file."""
    if not isinstance(value, dict):
        raise Bad(f"{where}: must be an object with named fields{ANEW}")
    found = {}
    for name, kind in kinds.items():
        types, what = KINDS[kind]
        if name not in value:
            raise Bad(f"{where}: the field '{name}' is missing{ANEW}")
        of = value[name]
        if not isinstance(of, types) or isinstance(of, bool) != (kind == "flag"):
            raise Bad(f"{where}: '{name}' must be {what}, and is {json.dumps(of)[:40]}{ANEW}")
        if kind == "whole" and of < 0:
            raise Bad(f"{where}: '{name}' must be at least 0, and is {of}{ANEW}")
        found[name] = of if kind != "number" else math.nan if of is None else float(of)
    return found


@dataclasses.dataclass(frozen=True)
class Problem:
    """What was multiplied, as the results name it; equal where the multiplication is the same."""

    operation: str
    type: str
    options: str
    matrix: str
    rows: int
    cols: int
    nnz: int
    products: int
    multiplications: int

    def kind(self):
        """Problems of one kind differ by their matrix only."""
        return (self.operation, self.type, self.options)


class Row:
    """One entry on one problem, with the fields that `_row` names. `times` is None where nothing was timed."""

    times = None
    previous = ""
    speedup_previous = speedup_peer = pays_after = math.nan

    def __init__(self, **named):
        self.__dict__ |= named

    @property
    def stage(self):
        return self.entry.split("/", 1)[0]

    @property
    def short(self):
        """"05 warp_per_row", "eigen_spmv", "02 balanced on 4"."""
        stage, _, name = self.entry.rpartition("/")
        text = name if self.peer else f"{stage[:2]} {name}"
        return f"{text} on {self.ranks}" if self.mpi else text

    def has_values(self):
        """Values of its parameters were chosen, by `stages run --set`."""
        return ":" in self.entry

    def ranked(self):
        """Timed, and all of the multiplication: what reuses the structure of C is no equal of the others."""
        return self.times is not None and not self.structure_reuse

    def is_host_bound(self):
        """As ResultRow::is_host_bound has it; not where it is not known."""
        return self.times.busy.median < 0.8 * self.times.median

    def metric(self, name):
        return self.metrics.get(name, math.nan)

    def bandwidth(self):
        """The measured copy bandwidth behind bandwidth_share, bytes a second."""
        per_product = self.model_bytes / self.problem.products
        return per_product / self.times.median / self.bandwidth_share if self.bandwidth_share > 0 else math.nan


@dataclasses.dataclass(eq=False)
class File:
    """One results file."""

    path: pathlib.Path
    name: str
    context: dict
    rows: list
    steps: list = dataclasses.field(default_factory=list)

    def machine(self):
        """Where its times were taken."""
        return self.context["gpu"] if "gpu_sms" in self.context else self.context["cpu"]

    def build(self):
        """What files have in common that one build made in one place."""
        c = self.context
        return (c["cpu"], c.get("cpus"), c.get("memory"), c["gpu"], c["backend"], c.get("compiler"), c["source_digest"])

    def launch(self):
        """How kernels were launched, where that is not one by one; for titles."""
        return ", replayed as a CUDA graph" if self.context.get("gpu_launch") == "graph" else ""

    def count(self, status):
        return sum(row.status == status for row in self.rows)


def _times(value, where):
    """Seconds per product, of a run's own JSON, which has the samples, or of a record, which has how many there were. What older records do not
    have is NaN, and of one process. `busy`: for how long of the time the device did something, and how well that is known."""
    seconds = fields(value, where, prepare="number", run="object")
    where += ".run"
    run = fields(seconds["run"], where, median="number", q1="number", q3="number", noise="number", samples="samples")
    samples = run.pop("samples")
    if not isinstance(samples, int) and any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in samples):
        raise Bad(f"{where}: 'samples' must hold numbers only{ANEW}")
    if not samples or (isinstance(samples, list) and min(samples) <= 0) or not run["median"] > 0:
        raise Bad(f"{where}: times must be more than 0{ANEW}")
    of = value | {"prepare_noise": value.get("prepare_noise"), "busy": value.get("busy", {"median": None, "noise": None})}
    more = fields(of, where, prepare_noise="number", busy="object")
    busy = types.SimpleNamespace(**fields(more["busy"], where + ".busy", median="number", noise="number"))
    processes = fields({"processes": 1} | value["run"], where, processes="samples")["processes"]
    return types.SimpleNamespace(prepare=seconds["prepare"], prepare_noise=more["prepare_noise"], busy=busy,
                                 processes=processes if isinstance(processes, int) else max(1, len(processes)), **run)


def _row(file, value, where):
    row = fields(value, where, problem="object", metrics="object", ranks="whole", entry="text", status="text", reason="text", note="text", peer="flag",
                 structure_reuse="flag", simulated="flag", mpi="flag")
    of = where + ".problem"
    problem = Problem(**fields(row["problem"], of, operation="text", type="text", options="text", matrix="text", rows="whole", cols="whole", nnz="whole",
                               products="whole", multiplications="whole"))
    if problem.operation not in OPERATIONS:
        raise Bad(f"{of}: there is no operation '{problem.operation}'; it is one of {', '.join(OPERATIONS)}")
    if row["status"] not in STATUSES:
        raise Bad(f"{where}: there is no status '{row['status'][:40]}'; it is one of {', '.join(STATUSES)}")
    metrics = {name: fields(metric, f"{where}.metrics.{name}", value="number")["value"] for name, metric in row["metrics"].items()}
    if "seconds" in value:
        if row["status"] != "good":
            raise Bad(f"{where}: is {row['status']}, and has times{ANEW}")
        row |= {"times": _times(value["seconds"], f"{where}.seconds")} | fields(value, where, operations="number", model_bytes="number", result_nnz="number", gflops="number", bandwidth_share="number")
        if "break_even_known" in value:  # older records do not tell how rows are related
            row |= fields({"previous": ""} | value, where, previous="text", speedup_previous="number", speedup_peer="number", break_even_known="flag")
            runs = fields(value, where, break_even_products="number")["break_even_products"]
            row["pays_after"] = math.inf if math.isnan(runs) else runs
    return Row(**{**row, "file": file, "problem": problem, "metrics": metrics})


def _step(value, where):
    """A line of the table of steps; `missing` says why there is nothing to show. Seconds are NaN of what was not timed, or has no record."""
    line = fields(value, where, step="text", matrix="text", options="text", record="text", missing="text", plainest="object", best="object")
    for end in ("plainest", "best"):
        line[end] = types.SimpleNamespace(**fields(line[end], f"{where}.{end}", entry="text", outcome="text", seconds="number", recorded_seconds="number"))
    return types.SimpleNamespace(**line)


def _refuse_constant(word):
    """JSON has no NaN and no infinity; the program writes null."""
    raise json.JSONDecodeError(f"'{word}' is no number", "", 0)


def _whole(digits):
    """No double is as large as a number of so many digits, and Python refuses thousands in words of its own."""
    if len(digits) > 308:
        raise json.JSONDecodeError(f"a whole number of {len(digits.lstrip('-'))} digits", "", 0)
    return int(digits)


def _json(path):
    """What the file holds."""
    give = "give a file that `stages run --json` wrote"
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant, parse_int=_whole)
    except OSError as error:
        raise Bad(f"{path}: cannot be read: {error.strerror}; {give}") from None
    except UnicodeDecodeError as error:
        raise Bad(f"{path}: is no text (byte {error.start}); {give}") from None
    except json.JSONDecodeError as error:
        raise Bad(f"{path}:{error.lineno}: is no JSON: {error.msg}; {give}") from None
    except RecursionError:
        raise Bad(f"{path}: is nested too deeply; {give}") from None


def read(path):
    """The results in the file at `path`. Raises Bad."""
    path = pathlib.Path(path)
    whole = _json(path)
    if isinstance(whole, dict) and whole and not {"context", "results"} & whole.keys():
        raise Another(f"{path}: is no record of a run: it has neither 'context' nor 'results'; give a file that `stages run --json` wrote")
    version = fields(whole, str(path), schema_version="number")["schema_version"]
    if version != SCHEMA_VERSION:
        raise Bad(f"{path}: has schema_version {version:g}, this report reads {SCHEMA_VERSION}; make the report with the sources that made the results")
    try:
        whole = record.unpacked(whole)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Bad(f"{path}: is no whole record ({type(error).__name__}: {error}); make it anew by tools/record.py") from None
    where = f"{path}.context"
    context = fields(whole, str(path), context="object")["context"]
    fields(context, where, **(dict.fromkeys(context, "text") | dict.fromkeys(("command", "date", "source_digest", "cpu", "gpu", "backend"), "text")))
    for name, value in context.items():
        if name.endswith("bytes_per_second"):
            try:
                float(value)
            except ValueError:
                raise Bad(f"{where}: '{name}' must be a number, and is '{value[:40]}'{ANEW}") from None
    file = File(path=path, name=path.name, context=context, rows=[])
    file.rows = [_row(file, value, f"{path}: results[{k}]") for k, value in enumerate(fields(whole, str(path), results="list")["results"])]
    file.steps = [_step(value, f"{path}: steps[{k}]") for k, value in enumerate(fields({"steps": []} | whole, str(path), steps="list")["steps"])]
    if not file.rows:
        raise Bad(f"{path}: holds no results; give a file of a run that had entries")
    return file


def read_all(paths, warn=None):
    """The results in the files, each with a name that tells it from the others: as little of its path as that takes. With `warn`
    files that record something else (those of a directory, say) are left out, and it is told so, as long as any is left."""
    files, others = [], []
    for path in paths:
        try:
            files.append(read(path))
        except Another as other:
            others.append(other)
    if others and not (warn and files):
        raise others[0]
    for other in others:
        warn(f"left out: {str(other).split(';', maxsplit=1)[0]}")
    places = [file.path.resolve().parts for file in files]
    for file, parts in zip(files, places):
        depth = next((k for k in range(1, len(parts)) if sum(other[-k:] == parts[-k:] for other in places) == 1), len(parts))
        file.name = "/".join(parts[-depth:])
    return files


def joined(files):
    """The files, but parts of one study as one: made by one build in one place, the same kinds of multiplication on different matrices,
    the smaller matrices first. Its name is what the names of its parts have in common."""
    def study(file):
        return (file.build(), file.launch(), frozenset(row.problem.kind() for row in file.rows))
    out = []
    for parts in grouped(files, study).values():
        matrices = [matrix for part in parts for matrix in {row.problem.matrix for row in part.rows}]
        if len(parts) == 1 or len(set(matrices)) < len(matrices):
            out += parts
            continue
        parts = sorted(parts, key=lambda part: min(row.problem.nnz for row in part.rows))
        names = [part.name for part in parts]
        before, after = os.path.commonprefix(names), os.path.commonprefix([name[::-1] for name in names])[::-1]
        out.append(File(path=parts[0].path, name=f"{before}*{after}", context=parts[0].context, rows=[row for part in parts for row in part.rows]))
    return out


def by_rule(files):
    """The files without the rows for which values of parameters were chosen."""
    return [dataclasses.replace(file, rows=[row for row in file.rows if not row.has_values()]) for file in files]


def grouped(rows, key):
    """{key: rows} in the order in which keys come first."""
    out = collections.defaultdict(list)
    for row in rows:
        out[key(row)].append(row)
    return dict(out)
