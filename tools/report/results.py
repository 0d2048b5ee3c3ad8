"""Reads the JSON files of `stages run`, and says in one line what is wrong with a file that is none.

Of a file everything that the page needs is looked at here, so that the sections may rely on it.
"""

import dataclasses
import json
import math
import os
import pathlib

SCHEMA_VERSION = 1
OPERATIONS = ("spmv", "spmm", "spgemm")
STATUSES = ("good", "wrong", "failed", "skipped")


class Bad(Exception):
    """Input that cannot be used: what, where, and how to mend it, in one line."""


class Another(Bad):
    """The file is sound, and records something else than a run."""


class Fields:
    """The fields of one JSON object. What is missing or of another kind is Bad, with the place in the file."""

    def __init__(self, value, where):
        if not isinstance(value, dict):
            raise Bad(f"{where}: must be an object with named fields; write the file anew by `stages run --json`")
        self.value = value
        self.where = where

    def _of(self, name, kinds, what):
        if name not in self.value:
            raise Bad(f"{self.where}: the field '{name}' is missing; write the file anew by `stages run --json`")
        value = self.value[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Bad(f"{self.where}: '{name}' must be {what}, and is {json.dumps(value)[:40]}; "
                      "write the file anew by `stages run --json`")
        return value

    def text(self, name):
        return self._of(name, (str,), "a text")

    def flag(self, name):
        return self._of(name, (bool,), "true or false")

    def number(self, name):
        """A number; NaN for the null that stands for unknown or never."""
        value = self._of(name, (int, float, type(None)), "a number")
        return math.nan if value is None else float(value)

    def whole(self, name):
        """A count: a whole number, at least 0."""
        value = self._of(name, (int,), "a whole number")
        if value < 0:
            raise Bad(f"{self.where}: '{name}' must be at least 0, and is {value}; write the file anew by `stages run --json`")
        return value

    def numbers(self, name):
        values = self._of(name, (list,), "a list of numbers")
        if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
            raise Bad(f"{self.where}: '{name}' must hold numbers only; write the file anew by `stages run --json`")
        return [float(v) for v in values]

    def items(self, name):
        return self._of(name, (list,), "a list")

    def inner(self, name):
        return Fields(self._of(name, (dict,), "an object with named fields"), f"{self.where}.{name}")


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


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds; `median` and what surrounds it are per product."""

    prepare: float
    load: float
    fetch: float
    median: float
    q1: float
    q3: float
    noise: float
    samples: tuple
    phases: tuple

    def interval(self):
        """The 95 % confidence interval of the median by order statistics, or None below 6 samples: no
        distribution is assumed. The same places as in common/harness/clock.cpp."""
        n = len(self.samples)
        if n < 6:
            return None
        ordered = sorted(self.samples)
        reach = 0.98 * math.sqrt(n)
        return ordered[max(0, math.floor(n / 2 - reach))], ordered[min(n - 1, math.ceil(n / 2 + reach))]


@dataclasses.dataclass(frozen=True)
class Row:
    """One entry on one problem. `times` is None where nothing was timed."""

    file: "File"
    problem: Problem
    entry: str
    idea: str
    peer: bool
    structure_reuse: bool
    status: str
    reason: str
    note: str
    simulated: bool
    mpi: bool
    ranks: int
    metrics: dict
    times: Times | None
    operations: float = math.nan
    model_bytes: float = math.nan
    result_nnz: float = math.nan
    gflops: float = math.nan
    bandwidth_share: float = math.nan
    speedup_previous: float = math.nan
    speedup_peer: float = math.nan
    speedup_serial: float = math.nan
    break_even: float = math.nan

    @property
    def stage(self):
        return self.entry.split("/", 1)[0]

    @property
    def short(self):
        """"05 warp_per_row", "eigen_spmv", "02 balanced on 4"."""
        stage, _, name = self.entry.rpartition("/")
        text = name if self.peer else f"{stage[:2]} {name}"
        return f"{text} on {self.ranks}" if self.mpi else text

    def ranked(self):
        """Timed, and all of the multiplication: what reuses the structure of C is no equal of the others."""
        return self.times is not None and not self.structure_reuse

    def metric(self, name):
        return self.metrics.get(name, math.nan)

    def bandwidth(self):
        """The measured copy bandwidth behind bandwidth_share, bytes a second."""
        per_product = self.model_bytes / self.problem.products
        return per_product / self.times.median / self.bandwidth_share if self.bandwidth_share > 0 else math.nan


@dataclasses.dataclass(frozen=True)
class StepTime:
    """An entry in the table of steps; seconds are NaN where it was not timed, or has no record."""

    entry: str
    outcome: str
    seconds: float
    recorded: float


@dataclasses.dataclass(frozen=True)
class StepLine:
    """A line of the table of steps; `missing` says why there is nothing to show."""

    step: str
    matrix: str
    options: str
    record: str
    missing: str
    plainest: StepTime
    best: StepTime


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


def _times(fields):
    run = fields.inner("run")
    phases = fields.inner("phases")
    samples = run.numbers("samples")
    if not samples or min(samples) <= 0 or not run.number("median") > 0:
        raise Bad(f"{run.where}: times must be more than 0; write the file anew by `stages run --json`")
    return Times(prepare=fields.number("prepare"), load=fields.number("load"), fetch=fields.number("fetch"),
                 median=run.number("median"), q1=run.number("q1"), q3=run.number("q3"), noise=run.number("noise"),
                 samples=tuple(samples), phases=tuple((name, phases.number(name)) for name in phases.value))


def _row(file, value, where):
    fields = Fields(value, where)
    p = fields.inner("problem")
    problem = Problem(operation=p.text("operation"), type=p.text("type"), options=p.text("options"), matrix=p.text("matrix"),
                      rows=p.whole("rows"), cols=p.whole("cols"), nnz=p.whole("nnz"),
                      products=p.whole("products"), multiplications=p.whole("multiplications"))
    if problem.operation not in OPERATIONS:
        raise Bad(f"{p.where}: there is no operation '{problem.operation}'; it is one of {', '.join(OPERATIONS)}")
    metrics = fields.inner("metrics")
    row = dict(file=file, problem=problem, times=None, ranks=fields.whole("ranks"),
               metrics={name: metrics.inner(name).number("value") for name in metrics.value})
    row |= {name: fields.text(name) for name in ("entry", "idea", "status", "reason", "note")}
    if row["status"] not in STATUSES:
        raise Bad(f"{where}: there is no status '{row['status'][:40]}'; it is one of {', '.join(STATUSES)}")
    row |= {name: fields.flag(name) for name in ("peer", "structure_reuse", "simulated", "mpi")}
    if "seconds" in fields.value:
        if row["status"] != "good":
            raise Bad(f"{where}: is {row['status']}, and has times; write the file anew by `stages run --json`")
        row["times"] = _times(fields.inner("seconds"))
        row |= {name: fields.number(name) for name in ("operations", "model_bytes", "result_nnz", "gflops", "bandwidth_share",
                                                       "speedup_previous", "speedup_peer", "speedup_serial")}
        row["break_even"] = fields.number("break_even_products")
    return Row(**row)


def _step_line(value, where):
    fields = Fields(value, where)

    def time(name):
        inner = fields.inner(name)
        return StepTime(inner.text("entry"), inner.text("outcome"), inner.number("seconds"), inner.number("recorded_seconds"))

    return StepLine(*(fields.text(name) for name in ("step", "matrix", "options", "record", "missing")), time("plainest"), time("best"))


def _refuse_constant(word):
    """JSON has no NaN and no infinity; the program writes null."""
    raise json.JSONDecodeError(f"'{word}' is no number", "", 0)


def _whole(digits):
    """No double is as large as a number of so many digits, and Python refuses thousands in words of its own."""
    if len(digits) > 308:
        raise json.JSONDecodeError(f"a whole number of {len(digits.lstrip('-'))} digits", "", 0)
    return int(digits)


def read(path):
    """The results in the file at `path`. Raises Bad."""
    path = pathlib.Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Bad(f"{path}: cannot be read: {error.strerror}; give a file that `stages run --json` wrote") from None
    except UnicodeDecodeError as error:
        raise Bad(f"{path}: is no text (byte {error.start}); give a file that `stages run --json` wrote") from None
    try:
        whole = json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise Bad(f"{path}:{error.lineno}: is no JSON: {error.msg}; give a file that `stages run --json` wrote") from None
    except RecursionError:
        raise Bad(f"{path}: is nested too deeply; give a file that `stages run --json` wrote") from None
    if isinstance(whole, dict) and whole and not {"context", "results"} & whole.keys():
        raise Another(f"{path}: is no record of a run: it has neither 'context' nor 'results'; give a file that `stages run --json` wrote")
    fields = Fields(whole, str(path))
    version = fields.number("schema_version")
    if version != SCHEMA_VERSION:
        raise Bad(f"{path}: has schema_version {version:g}, this report reads {SCHEMA_VERSION}; "
                  "make the report with the sources that made the results")
    context = fields.inner("context")
    file = File(path=path, name=path.name, context={name: context.text(name) for name in context.value}, rows=[])
    for name in ("command", "date", "source_digest", "cpu", "gpu", "backend"):
        context.text(name)
    for name, value in file.context.items():
        if name.endswith("bytes_per_second"):
            try:
                float(value)
            except ValueError:
                raise Bad(f"{context.where}: '{name}' must be a number, and is '{value[:40]}'; write the file anew by `stages run --json`") from None
    rows = fields.items("results")
    file.rows = [_row(file, value, f"{path}: results[{k}]") for k, value in enumerate(rows)]
    if "steps" in whole:
        file.steps = [_step_line(value, f"{path}: steps[{k}]") for k, value in enumerate(fields.items("steps"))]
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
    for file in files:
        parts = file.path.resolve().parts
        same = [other.path.resolve().parts for other in files if other is not file]
        depth = 1
        while depth < len(parts) and any(other[-depth:] == parts[-depth:] for other in same):
            depth += 1
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


def grouped(rows, key):
    """{key: rows} in the order in which keys come first."""
    out = {}
    for row in rows:
        out.setdefault(key(row), []).append(row)
    return out
