#!/usr/bin/env python3
"""Plants one fault at a time in the files that are named, and tells which of them the battery finds.

    tools/mutate.py [--list] [--most N] [--seed S] [--results FILE] [--then COMMAND] FILE ...

Faults are small, such as somebody makes: a barrier that is missing, a border that is off by one, an index of 32 bits in place
of 64, a loop that leaves out its last turn, a sum that is overwritten. They are planted in a copy of the working tree
(build/mutants/source, built in build/mutants/build), so the files themselves are never touched. The battery runs over the entries
of the file's step alone (over all of them where the file is of no step), until the first case that fails; what passes goes through
its small half once more with STAGES_RACES=1, which looks for races. --then names a test program and its filter, such as
'cuda_mutants_tests --gtest_filter=HashParts.*', that what survived goes through too.

Building takes much longer than testing, so all faults are built at once, each behind a switch, and STAGES_MUTANT says which one
is on (Untch, Offutt and Harrold, 1993: mutant schemata): tools/mutant_switch.hpp has the switches. What the compiler does not take
behind one, such as another constant, is left out there, by the lines of its messages, and built alone. A switch cannot show that
the compiler would make the same of both.

Each fault is a line of the results (build/mutants/results.tsv) as soon as its fate is known:

    caught           a test failed, or the program crashed; timeout: it took three times the processor's time that it takes without a
                     fault, and ten seconds more
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
import resource
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAUGHT, SURVIVED = ("caught", "timeout"), ("survived",)
COLUMNS = ("id", "place", "kind", "before", "after", "outcome", "seconds", "by")

MOST_MEMORY = 8 << 30  # bytes: a fault may ask for any number
SWITCHES = "tools/mutant_switch.hpp"

# (kind, what is looked for, what stands in its place, what stands there if it is to be switched on and off, as SWITCHES has it; N is
# its number). A pattern is tried at each place of a line's code where it is found.
KINDS = (
    ("barrier", r"\b(__syncthreads|__syncwarp|cluster_sync|grid_sync)\([^()]*\);", ";", r"mutant::on(N) ? (void)0 : (void)\g<0>"),
    ("border", r"(?<= )<(?= )", "<=", "kLessEqual"),
    ("border", r"(?<= )<=(?= )", "<", "kLess"),
    ("border", r"(?<= )<=(?= )", "<= 1 +", "kLessEqualMore"),
    ("border", r"(?<= )>(?= )", ">=", "kGreaterEqual"),
    ("border", r"(?<= )>(?= )", "> 1 +", "kGreaterMore"),
    ("border", r"(?<= )>=(?= )", ">", "kGreater"),
    ("loop's last", r"^( *for \([^;]*; [^;<]+ <) ([^;&|]+);", r"\1 \2 - 1;", " - mutant::on(N)"),
    ("off by one", r" ([+-]) 1\b(?![.'\w])", "", r" \1 (mutant::on(N) ? 0 : 1)"),
    ("constant", r"(?<=constexpr )([\w:]+ k\w+ = \d+)(?=;)", r"\1 + 1", None),
    ("narrow", r"\bstatic_cast<(Offset|std::size_t|std::uint64_t)>(?=\([^()]*\) \*)", "static_cast<int>", r"mutant::Narrow<\1, N>"),
    ("narrow", r"\b(Offset|std::size_t|std::uint64_t)(?=\{[^{}]*\} \*)", "int", r"mutant::Narrow<\1, N>"),
    ("overwritten", r"(?<= )\+=(?= )", "=", "+= mutant::overwrites(mutant::on(N)) ="),
    ("condition", r"(?<= )&&(?= )", "||", "&& mutant::passed(N) || mutant::goes_on(N) &&"),
    ("extreme", r"\bmin\(", "max(", "mutant::extreme(!mutant::on(N), "),
    ("extreme", r"\bmax\(", "min(", "mutant::extreme(mutant::on(N), "),
)
COMPARISONS = {"<": "kLess", "<=": "kLessEqual", ">": "kGreater", ">=": "kGreaterEqual"}
# By step, the entry that comes to most of its files.
MAIN_ENTRIES = {"07_spmm": "07_spmm_balanced", "08_spgemm_multigpu": "08_spgemm_multigpu_binned"}
# What computes nothing of a result: declarations of types, estimates of cost, figures for the table.
NO_CODE = re.compile(r"^\s*(#|static_assert|template\b|using\b)|\boperator\b|\bcost\.|\{\"")


class Fault(Exception):
    pass


class Mutant:
    """One fault: the file's line `number` (from 0) becomes `after`. Or it is switched: then `switch` stands in that line for what is
    between the columns `span`; none where its kind has no switch."""

    def __init__(self, path, number, kind, before, after, nth, span, switch):
        self.path, self.number, self.kind, self.before, self.after = path, number, kind, before, after
        # It is the same fault where lines were added above it.
        what = "\t".join((str(path), kind, before, after, str(nth)))
        self.id = hashlib.sha256(what.encode()).hexdigest()[:12]
        self.switch_number = f"0x{self.id[:8]}u"
        self.span, self.switch = span, switch and re.sub(r"\bN\b", self.switch_number, switch)

    @property
    def place(self):
        return f"{self.path}:{self.number + 1}"

    def source(self, text):
        lines = text.split("\n")
        lines[self.number] = self.after
        return "\n".join(lines)


def switch_of(kind, match, template):
    """The columns that a switch stands in for, and the switch."""
    if template is None:
        return None, None
    if kind == "loop's last":
        return (match.end() - 1, match.end() - 1), template
    before = match.string[: match.start()]
    if kind == "extreme" and before.endswith("::"):
        return ((match.start() - len("std::"), match.end()), template) if before.endswith("std::") else (None, None)
    return match.span(), template if kind == "border" else match.expand(template)


def switched(text, mutants):
    """The source with all of these faults behind switches, one of which may be on."""
    lines = text.split("\n")
    spans = {}
    for m in mutants:
        spans.setdefault((m.number, m.span), []).append(m)
    for (number, (begin, end)), here in sorted(spans.items(), reverse=True):
        line = lines[number]
        switch = here[0].switch
        if here[0].kind == "border":
            sign = line[begin:end]
            choice = "".join(f"mutant::on({m.switch_number}) ? mutant::{m.switch} : " for m in here)
            switch = f"{sign[0]} mutant::compare({choice}mutant::{COMPARISONS[sign]}) >"
        lines[number] = line[:begin] + switch + line[end:]
    return f'#include "{SWITCHES}"\n#line 1\n' + "\n".join(lines)


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
        for kind, pattern, to, switch in KINDS:
            for match in re.finditer(pattern, code):
                if kind != "loop's last" and within_head_of_loop(code, match.start()):
                    continue
                after = line[: match.start()] + match.expand(to) + line[match.end() :]
                key = (kind, line, after)
                seen[key] = seen.get(key, -1) + 1
                found.append(Mutant(path, number, kind, line, after, seen[key], *switch_of(kind, match, switch)))
    return found


def run(command, log, processor=None, environment=None):
    """The exit code, and None where it took more than `processor` seconds of a processor, or hung. Everything that it started ends
    with it."""
    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (processor, processor))

    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                               env=environment, preexec_fn=limited if processor else None)
    try:
        code = process.wait(processor and 10 * processor)  # of the clock: others may be at work on this machine
        return None if code in (-signal.SIGXCPU, -signal.SIGKILL) and processor else code
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
        self.log, self.without_switch = directory / "log.txt", directory / "without_switch.txt"
        self.jobs, self.programs = jobs, programs
        self.source.mkdir(parents=True, exist_ok=True)

    def refresh(self, planted):
        """Only what differs is written, so only that is built again; this also takes back a fault that was left in it. Not in the
        files where faults are planted next."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                                capture_output=True).stdout
        wanted = {name for name in os.fsdecode(listed).split("\0") if name and (ROOT / name).is_file()}
        for name in wanted - planted:
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

    def compiles(self):
        with open(self.log, "wb") as log:
            return run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *self.programs, "--", "-k", "0"], log) == 0

    def plain(self, paths):
        """No fault in these files."""
        for path in paths:
            self.write(str(path), (ROOT / path).read_bytes())

    def plant_switches(self, mutants):
        """Builds with all of them behind switches, but those that the compiler does not take there; the others are returned."""
        paths = {m.path for m in mutants}
        known = set(self.without_switch.read_text().split()) if self.without_switch.is_file() else set()
        mutants = [m for m in mutants if m.id not in known]
        while True:
            for path in paths:
                self.write(str(path), switched((ROOT / path).read_text(), [m for m in mutants if m.path == path]).encode())
            if self.compiles():
                return mutants
            taken = without_errors(mutants, self.log.read_text(errors="replace"))
            if len(taken) == len(mutants):
                raise Fault(f"the copy does not build; {self.log} says why")
            self.without_switch.write_text("\n".join(known := known | {m.id for m in mutants} - {m.id for m in taken}))
            mutants = taken

    def program(self, name):
        return self.build / "bin" / name

    def digest(self):
        return [hashlib.sha256(self.program(name).read_bytes()).digest() for name in self.programs]


def without_errors(mutants, log):
    """Those on whose lines the compiler found nothing wrong; if that is all of them, those that its notes do not name."""
    for said in ("(?:fatal )?error:", "(?:note:|required|in )"):
        wrong = set(re.findall(rf"(?m)^(?:\S*/)?source/(\S+?):(\d+):\d+: +{said}", log))
        left = [m for m in mutants if (str(m.path), str(m.number + 1)) not in wrong]
        if len(left) < len(mutants):
            break
    return left


class Tests:
    """What decides on a fault: a program of GoogleTest with a filter."""

    def __init__(self, copy, command, quick):
        self.name, *self.options = shlex.split(command)
        self.quick = quick
        self.copy, self.seconds = copy, {}
        self.log = copy.log.with_name("tests.txt")

    def run(self, options, races, limit=None, mutant=None):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {**os.environ, "STAGES_WATCHDOG": "5"}
        if races:
            environment |= {"STAGES_RACES": "1", "STAGES_BATTERY": "small"}
        if mutant:
            environment["STAGES_MUTANT"] = mutant
        with open(self.log, "wb") as log:
            code = run([self.copy.program(self.name), *options, "--gtest_fail_fast", "--gtest_brief=1"], log, limit, environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def turns(self, path):
        """One run after the other, as options and whether races are looked for: an entry that is called as the file is, the one that
        comes to most files of its step, then all of the step; then the first of these once more."""
        if self.options:
            return [(tuple(self.options), False)]
        step = path.parts[0] if re.match(r"\d\d_", path.parts[0]) else ""
        entry = f"{step}_" + re.sub(r"^\d+_", "", path.stem)
        turns = [(f"--gtest_filter=*PassesTheBattery/{entries}*",) for entries in (entry, MAIN_ENTRIES.get(step, step), step)]
        turns = [options for options in turns if self.seconds.get((options, False)) != 0]
        turns = turns[:1] if self.quick else [options for i, options in enumerate(turns) if options not in turns[:i]]
        return [(options, False) for options in turns] + [(options, True) for options in turns[:1]]

    def measure(self, path):
        """How many seconds of a processor they take without a fault, which they must pass; 0 for a filter that leaves none."""
        while new := [turn for turn in self.turns(path) if turn not in self.seconds]:
            options, races = new[0]
            code, seconds = self.run(options, races)
            if code != 0:
                raise Fault(f"{self.name} {shlex.join(options)} fails without a fault; {self.log} says where")
            self.seconds[options, races] = 0 if b"] 0 tests " in self.log.read_bytes() else seconds
        if not self.turns(path):
            raise Fault(f"{self.name} has no tests for {path}; name another filter")

    def judge(self, path, mutant=None):
        """The outcome, and what saw the fault: the one that is planted, or the one of this number."""
        for options, races in self.turns(path):
            code, _ = self.run(options, races, int(3 * self.seconds[options, races] + 10), mutant)
            if code is None:
                return "timeout", self.name
            if code != 0:
                said = self.log.read_text(errors="replace")
                case = re.search(r"FAILED ([^:\n]+:.{0,60})", said) or re.search(r"\[  FAILED  \] ([^,\n]+)", said)
                return "caught", ("races: " if races else "") + (case.group(1) if case else f"exit code {code}")
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


def judged(mutant, tests, number=None):
    for judge in tests:
        outcome, by = judge.judge(mutant.path, number)
        if outcome != "survived":
            break
    return outcome, by


def outcome_alone(mutant, copy, tests, good):
    """Plants it, builds, runs, and takes it back."""
    copy.write(str(mutant.path), mutant.source((ROOT / mutant.path).read_text()).encode())
    try:
        if not copy.compiles():
            return "does not compile", ""
        if copy.digest() == good:
            return "same code", ""
        return judged(mutant, tests)
    finally:
        copy.plain([mutant.path])


def outcomes(left, mutants, copy, tests):
    """Each mutant that is left, with its outcome and what saw it, as they come: first those of them that a switch turns on, of one
    program with all mutants of their files, then the others, each built alone."""
    def measure(some):
        for path in sorted({m.path for m in some}):
            for judge in tests:
                judge.measure(path)

    files = {m.path for m in left if m.switch}
    switches = copy.plant_switches([m for m in mutants if m.switch and m.path in files])
    numbers = {m.id: m.switch_number for m in switches}
    behind = [m for m in left if m.id in numbers]
    print(f"mutate: {len(behind)} faults behind switches, {len(left) - len(behind)} that are built alone", file=sys.stderr)
    for m in behind:
        measure([m])
        yield m, *judged(m, tests, numbers[m.id])
    copy.plain({m.path for m in left})
    alone = [m for m in left if m.id not in numbers]
    if not alone:
        return
    if not copy.compiles():
        raise Fault(f"the copy does not build without a fault; {copy.log} says why")
    good = copy.digest()
    measure(alone)
    for m in alone:
        yield m, *outcome_alone(m, copy, tests, good)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path, help="sources, such as 05_cuda_csr/fast/balanced.cu")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    parser.add_argument("--most", type=int, metavar="N", help="so many faults at most, those of earlier calls among them")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the order of faults (default 1)")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE", help="where outcomes are noted")
    parser.add_argument("--then", action="append", default=[], metavar="COMMAND", help="tests for what the battery lets pass")
    parser.add_argument("--alone", action="store_true", help="no switches: each fault is built alone")
    parser.add_argument("--quick", action="store_true", help="the battery runs over the first entry in question alone")
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
    everything = all_mutants(options.files, options.seed)
    mutants = everything[: options.most]
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
        copy.refresh({str(m.path) for m in left})
        copy.configure()
        print(f"mutate: building; results in {results}", file=sys.stderr)
        tests = [Tests(copy, command, options.quick) for command in ("battery_tests", *options.then)]
        began = time.monotonic()
        for number, (m, outcome, by) in enumerate(outcomes(left, [] if options.alone else everything, copy, tests), 1):
            seconds, began = round(time.monotonic() - began), time.monotonic()
            values = (m.id, m.place, m.kind, m.before, m.after, outcome, seconds, by)
            row = dict(zip(COLUMNS, (re.sub(r"\s+", " ", str(value)).strip() for value in values)))
            append(results, row)
            done[m.id] = row
            print(f"{number} of {len(left)}: {outcome}: {m.place}: {m.kind}: {m.after.strip()}", file=sys.stderr)
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
