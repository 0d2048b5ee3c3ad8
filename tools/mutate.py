#!/usr/bin/env python3
"""Plants one fault at a time in the files that are named, and tells which of them the battery finds.

    tools/mutate.py [--list] [--most N] [--seed S] [--results FILE] [--then COMMAND] FILE ...

Faults are small, such as somebody makes: a barrier that is missing, a border that is off by one, an index of 32 bits in place
of 64, a loop that leaves out its last turn, a sum that is overwritten. Each is planted in a copy of the working tree
(build/mutants/source, built in build/mutants/build), so the files themselves are never touched; what depends on the file is
built again; and the battery runs over the entries of the file's step alone (over all of them where the file is of no step),
until the first case that fails. --then names a test program and its filter, such as
'cuda_mutants_tests --gtest_filter=HashParts.*', that what survived goes through too.

Each fault is a line of the results (build/mutants/results.tsv) as soon as its fate is known:

    caught           a test failed, or the program crashed; timeout: it ran for more than three times as long as without a fault
    survived         no test saw it: the tests lack a case, or the fault changes no result (a constant that is there for speed).
                     Whoever has found that out writes `harmless` in its place: it then counts no more
    same code        the compiler made the same program of it
    does not compile

Those that are there already are not tried again: after an interruption (Ctrl-C) the same call goes on. Faults are tried in
an order that --seed shuffles, so that the first N of them (--most) are a sample. --list shows them and runs nothing.
Ends with the score: caught, of those that were caught or survived.
"""

import argparse
import hashlib
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAUGHT, SURVIVED = ("caught", "timeout"), ("survived",)
COLUMNS = ("id", "place", "kind", "before", "after", "outcome", "seconds", "by")

# (kind, what is looked for, what stands in its place). A pattern is tried at each place of a line's code where it is found.
KINDS = (
    ("barrier", r"\b(__syncthreads|__syncwarp|cluster_sync|grid_sync)\([^()]*\);", ";"),
    ("border", r"(?<= )<(?= )", "<="),
    ("border", r"(?<= )<=(?= )", "<"),
    ("border", r"(?<= )<=(?= )", "<= 1 +"),
    ("border", r"(?<= )>(?= )", ">="),
    ("border", r"(?<= )>(?= )", "> 1 +"),
    ("border", r"(?<= )>=(?= )", ">"),
    ("loop's last", r"^( *for \([^;]*; [^;<]+ <) ([^;&|]+);", r"\1 \2 - 1;"),
    ("off by one", r" [+-] 1\b(?![.'\w])", ""),
    ("constant", r"(?<=constexpr )([\w:]+ k\w+ = \d+)(?=;)", r"\1 + 1"),
    ("narrow", r"\bstatic_cast<(Offset|std::size_t|std::uint64_t)>(?=\([^()]*\) \*)", "static_cast<int>"),
    ("narrow", r"\b(Offset|std::size_t|std::uint64_t)(?=\{[^{}]*\} \*)", "int"),
    ("overwritten", r"(?<= )\+=(?= )", "="),
    ("condition", r"(?<= )&&(?= )", "||"),
    ("extreme", r"\bmin\(", "max("),
    ("extreme", r"\bmax\(", "min("),
)
# What computes nothing of a result: declarations of types, estimates of cost, figures for the table.
NO_CODE = re.compile(r"^\s*(#|static_assert|template\b|using\b)|\boperator\b|\bcost\.|\{\"")


class Fault(Exception):
    pass


class Mutant:
    """One fault: the file's line `number` (from 0) becomes `after`."""

    def __init__(self, path, number, kind, before, after, nth):
        self.path, self.number, self.kind, self.before, self.after = path, number, kind, before, after
        # It is the same fault where lines were added above it.
        what = "\t".join((str(path), kind, before, after, str(nth)))
        self.id = hashlib.sha256(what.encode()).hexdigest()[:12]

    @property
    def place(self):
        return f"{self.path}:{self.number + 1}"

    def source(self, text):
        lines = text.split("\n")
        lines[self.number] = self.after
        return "\n".join(lines)


def code_of(line):
    """A line without its comment, and with its strings blanked: of the same length where there is code."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda s: '"' + "_" * (len(s.group()) - 2) + '"', line)
    return line.split("//")[0]


def within_head_of_loop(code, place):
    """Whether it lies between the parentheses of a for or while that begins the line: another border there mostly reads what is
    not the array's, or never ends."""
    head = re.match(r" *(for|while) \(", code)
    if not head or place < head.end():
        return False
    depth = 1
    for character in code[head.end() : place]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return False
    return True


def mutants_of(path, text):
    found, seen = [], {}
    for number, line in enumerate(text.split("\n")):
        code = code_of(line)
        if NO_CODE.search(code):
            continue
        for kind, pattern, to in KINDS:
            for match in re.finditer(pattern, code):
                if kind != "loop's last" and within_head_of_loop(code, match.start()):
                    continue
                after = line[: match.start()] + match.expand(to) + line[match.end() :]
                key = (kind, line, after)
                seen[key] = seen.get(key, -1) + 1
                found.append(Mutant(path, number, kind, line, after, seen[key]))
    return found


def run(command, log, limit=None, environment=None):
    """The exit code, and None where it took longer than `limit` seconds. Everything that it started ends with it."""
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                               env=environment)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Copy:
    """The copy of the working tree that faults are planted in, and its build."""

    def __init__(self, directory, jobs, programs):
        self.source, self.build = directory / "source", directory / "build"
        self.log = directory / "log.txt"
        self.jobs, self.programs = jobs, programs
        self.source.mkdir(parents=True, exist_ok=True)

    def refresh(self):
        """Only what differs is written, so only that is built again; this also takes back a fault that was left in it."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                                capture_output=True).stdout
        wanted = {name for name in os.fsdecode(listed).split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            self.write(name, (ROOT / name).read_bytes())
        for path in [p for p in self.source.rglob("*") if p.is_file()]:
            if str(path.relative_to(self.source)) not in wanted:
                path.unlink()

    def write(self, name, content):
        path = self.source / name
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if os.access(ROOT / name, os.X_OK):
            path.chmod(0o755)

    def configure(self):
        command = ["cmake", "--preset", "cpu", "-S", self.source, "-B", self.build, "-D", "STAGES_WERROR=OFF"]
        with open(self.log, "wb") as log:
            if subprocess.run(command, cwd=self.source, stdout=log, stderr=subprocess.STDOUT).returncode:
                raise Fault(f"the copy cannot be configured; {self.log} says why")

    def compiles(self, limit=None):
        with open(self.log, "wb") as log:
            return run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *self.programs], log, limit) == 0

    def program(self, name):
        return self.build / "bin" / name

    def digest(self):
        return [hashlib.sha256(self.program(name).read_bytes()).digest() for name in self.programs]


class Tests:
    """What decides on a fault: a program of GoogleTest with a filter."""

    def __init__(self, copy, command):
        self.name, *self.options = shlex.split(command)
        self.copy, self.seconds = copy, {}
        self.log = copy.log.with_name("tests.txt")

    def run(self, options, limit):
        began = time.monotonic()
        with open(self.log, "wb") as log:
            code = run([self.copy.program(self.name), *options, "--gtest_fail_fast", "--gtest_brief=1"], log, limit,
                       {**os.environ, "STAGES_WATCHDOG": "5"})
        return code, time.monotonic() - began

    def turns(self, path):
        """The options of one run after the other: an entry that is called as the file is, then all of the file's step."""
        if self.options:
            return [tuple(self.options)]
        step = path.parts[0] if re.match(r"\d\d_", path.parts[0]) else ""
        entry = re.sub(r"\W", "_", str(path.with_suffix("")))
        turns = [(f"--gtest_filter=*PassesTheBattery/{entries}*",) for entries in (entry, step)]
        return [options for options in turns if self.seconds.get(options) != 0]

    def measure(self, path):
        """How long they take without a fault, which they must pass; 0 for a filter that leaves none."""
        for options in self.turns(path):
            if options in self.seconds:
                continue
            code, seconds = self.run(options, None)
            if code != 0:
                raise Fault(f"{self.name} {shlex.join(options)} fails without a fault; {self.log} says where")
            self.seconds[options] = 0 if b"] 0 tests " in self.log.read_bytes() else seconds
        if not self.turns(path):
            raise Fault(f"{self.name} has no tests for {path}; name another filter")

    def judge(self, path):
        """The outcome, and what saw the fault."""
        for options in self.turns(path):
            code, _ = self.run(options, 3 * self.seconds[options] + 10)
            if code is None:
                return "timeout", self.name
            if code != 0:
                said = self.log.read_text(errors="replace")
                case = re.search(r"FAILED ([^:\n]+:.{0,60})", said) or re.search(r"\[  FAILED  \] ([^,\n]+)", said)
                return "caught", case.group(1) if case else f"exit code {code}"
        return "survived", ""


def read_results(path):
    if not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return {row[0]: dict(zip(COLUMNS, row)) for row in rows if len(row) == len(COLUMNS)}


def append(path, row):
    new = not path.is_file()
    with open(path, "a") as out:
        if new:
            out.write("\t".join(COLUMNS) + "\n")
        out.write("\t".join(row[name] for name in COLUMNS) + "\n")


def score(rows):
    counts = {}
    for row in rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    caught = sum(counts.get(o, 0) for o in CAUGHT)
    judged = caught + sum(counts.get(o, 0) for o in SURVIVED)
    listed = ", ".join(f"{counts[o]} {o}" for o in sorted(counts))
    if not judged:
        return f"nothing was judged: {listed or '-'}"
    return f"{caught} of {judged} caught ({100 * caught / judged:.1f} %): {listed}"


def outcome_of(mutant, copy, tests, good):
    """Plants it, builds, runs, and takes it back."""
    name, original = str(mutant.path), (ROOT / mutant.path).read_bytes()
    copy.write(name, mutant.source(original.decode()).encode())
    try:
        if not copy.compiles():
            return "does not compile", ""
        if copy.digest() == good:
            return "same code", ""
        for judge in tests:
            outcome, by = judge.judge(mutant.path)
            if outcome != "survived":
                break
        return outcome, by
    finally:
        copy.write(name, original)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path, help="sources, such as 05_cuda_csr/fast/balanced.cu")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    parser.add_argument("--most", type=int, metavar="N", help="so many faults at most, those of earlier calls among them")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the order of faults (default 1)")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE", help="where outcomes are noted")
    parser.add_argument("--then", action="append", default=[], metavar="COMMAND", help="tests for what the battery lets pass")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="compilers at once")
    return parser.parse_args()


def all_mutants(files, seed):
    found = []
    for file in files:
        path = file.resolve()
        if not path.is_file() or ROOT not in path.parents:
            raise Fault(f"{file} is no file of this project; name sources, such as 05_cuda_csr/fast/balanced.cu")
        found += mutants_of(path.relative_to(ROOT), path.read_text())
    random.Random(seed).shuffle(found)
    return found


def main():
    options = arguments()
    mutants = all_mutants(options.files, options.seed)[: options.most]
    if options.list:
        for m in sorted(mutants, key=lambda m: (str(m.path), m.number)):
            print(f"{m.place}: {m.kind}: {m.before.strip()}  ->  {m.after.strip()}")
        print(f"{len(mutants)} faults")
        return
    directory = ROOT / os.environ.get("STAGES_BUILD", "build") / "mutants"
    results = options.results or directory / "results.tsv"
    done = read_results(results)
    left = [m for m in mutants if m.id not in done]
    if left:
        programs = ["battery_tests", *(shlex.split(then)[0] for then in options.then)]
        copy = Copy(directory, options.jobs, sorted(set(programs)))
        copy.refresh()
        copy.configure()
        print(f"mutate: building without a fault, then {len(left)} with one each; results in {results}", file=sys.stderr)
        if not copy.compiles():
            raise Fault(f"the copy does not build without a fault; {copy.log} says why")
        good, tests = copy.digest(), [Tests(copy, command) for command in ("battery_tests", *options.then)]
        for path in sorted({mutant.path for mutant in left}):
            for judge in tests:
                judge.measure(path)
    for number, mutant in enumerate(left, 1):
        began = time.monotonic()
        outcome, by = outcome_of(mutant, copy, tests, good)
        row = dict(zip(COLUMNS, (re.sub(r"\s+", " ", str(value)).strip() for value in (
            mutant.id, mutant.place, mutant.kind, mutant.before, mutant.after, outcome, round(time.monotonic() - began), by))))
        append(results, row)
        done[mutant.id] = row
        print(f"{number} of {len(left)}: {outcome}: {mutant.place}: {mutant.kind}: {mutant.after.strip()}", file=sys.stderr)
    rows = [done[m.id] for m in mutants]
    for row in rows:
        if row["outcome"] in SURVIVED:
            print(f"survived: {row['place']}: {row['before']}  ->  {row['after']}")
    print(score(rows))


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"mutate: {fault}")
    except KeyboardInterrupt:
        sys.exit("mutate: interrupted; the same call goes on from here")
