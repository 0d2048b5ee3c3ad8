#!/usr/bin/env python3
"""Exercises and their grading: every task loses points, every solution gets all of them, and a student's file may do
what it likes without harm to the grader.

The exercises are in a program that was built before (tests/exercises); of each kind of file one goes the whole way.

usage: grade_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(1, __file__.rsplit("/", 2)[0])
import answers  # noqa: E402
from answers import exercises  # noqa: E402
import played  # noqa: E402
from played import wait_until  # noqa: E402

PROGRAM, ROOT = played.given("program", "root")
LIMIT = 600  # seconds that one command may take; a compiler is among them
STAGE, NAME = "05_cuda_csr", "row_lengths.cu"


def run(*words, **environment):
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False,
                          env={**os.environ, **environment})


def listed():
    """What this build has: its backend, and the stages with entries."""
    data = json.loads(run(PROGRAM, "list", "--json").stdout)
    return data["backend"], {entry["stage"] for entry in data["entries"]}


def steps_that_run():
    """Those of this build whose exercises can run here."""
    return listed()[1] - (set() if shutil.which("mpirun") else {"02_mpi"})


def step_of(stage, name):
    """The step of an exercise; the head of a micro-exercise names it."""
    return re.search(r"(?m)^// Step: (.*)$", (ROOT / stage / "exercises" / name).read_text()).group(1) if stage == "micro" else stage


class Case(played.Case):
    def setUp(self):
        # The same place each time, so that a compiler cache knows the files again.
        self.directory = PROGRAM.parent.parent / "grade" / type(self).__name__
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, self.directory)

    def prebuilt(self, name):
        """A program of students' files that was built before, if this build has it."""
        if not (PROGRAM.parent / name).exists():
            self.skipTest(f"{name} is not built")
        return PROGRAM.parent / name

    def loses_all(self, grade, reason):
        """No point is left, and all that is lost is lost for this reason."""
        self.assertEqual(grade["points"], 0, grade)
        reasons = [grade["broken"]] if grade["broken"] else [c["reason"] for c in grade["classes"] if not c["good"]]
        self.assertTrue(reasons)
        for said in reasons:
            self.assertRegex(said, reason)
            self.assertLess(len(said), 1000)

    def graded(self, *words, **environment):
        """What `stages grade` did, which graded."""
        done = run(PROGRAM, "grade", *words, **environment)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        return done

    def grade(self, stage, file, *words, **environment):
        """The grade of one file, from the JSON."""
        done = self.graded(stage, file, "--json", *words, **environment)
        grade = json.loads(done.stdout)["grades"][0]
        self.assertEqual(done.returncode == 0, grade["points"] == grade["of"])
        return grade

    def whole_way(self, stage, name, solution):
        """The grade of a task or a solution that is made and compiled here."""
        return self.grade(stage, self.write(f"{solution}/{name}", exercises.made(ROOT / stage / "exercises" / name, solution)))

    def refused(self, expected, *words, **environment):
        self.refuses(lambda: run(PROGRAM, "grade", *words, **environment), "stages: error: ", expected)


DEMAND = re.compile(r"(?m)^// ((?:At most|At least): .*|No race|No bank conflict)$")


class Masters(unittest.TestCase):
    """What all of them have, whichever steps this build has."""

    def test_each_of_them(self):
        """It stands in a document; a micro-exercise has hints, a kernel a demand, and each demand is lost by some answer."""
        lost = {(answers.place(answer), demand) for answer in answers.WASTEFUL for demand in answer[2]}
        lost |= {((stage, name), demand) for _, stage, name, demands, _ in MISBEHAVING for demand, reason in demands.items() if reason != "^$"}
        for stage in exercises.sets():
            micro, masters, kinds = stage == "micro", exercises.masters(stage), set()
            document = (ROOT / ("docs/exercises.md" if micro else f"{stage}/README.md")).read_text()
            if micro:
                self.assertIn(exercises.table(stage), document, "tools/exercises.py --table")
            self.assertGreaterEqual(len(masters), 24 if micro else 2, stage)
            for master in masters:
                text = master.read_text()
                demands = DEMAND.findall(text)
                kinds.add(re.search(r"// Task: (fill in|find the fault)", text).group(1))
                with self.subTest(exercise=f"{stage}/{master.name}"):
                    self.assertIn(f"`{master.name}`", document)
                    self.assertGreaterEqual(len(exercises.HINT.findall(text)), 3 if micro else 0)
                    # In a student's program a name outside of it may be one of ours.
                    self.assertRegex(text, r"(?m)^namespace \{$")
                    # Only kernels are counted: on the host a demand would be met by whatever is written.
                    self.assertEqual(bool(demands), master.suffix == ".cu")
                    self.assertTrue(demands or step_of(stage, master.name)[:2] < "03" or "// Ranks: " in text)
                    self.assertLessEqual({((stage, master.name), demand) for demand in demands}, lost)
            self.assertEqual(len(kinds), 2, f"{stage}: of each kind there must be one")


class Exercises(Case):
    def each(self, solution):
        built = PROGRAM.parent / "graded_exercises"
        # For a GPU they are only built where somebody asks for the target, and else here, one by one.
        words = ["--built", built] if listed()[0] == "cpu" or built.exists() else []
        counted = PROGRAM.parent / "counted_exercises"
        if words and solution and counted.exists():
            words += ["--counted", counted]
        if not solution:
            words += ["--time-limit", "3"]  # one of them hangs, class by class; a solution takes a tenth of it
        kind, steps = "solution" if solution else "task", steps_that_run()
        found = [self.write(f"{stage}/{master.name}", exercises.made(master, solution))
                 for stage in exercises.sets() for master in exercises.masters(stage) if step_of(stage, master.name) in steps]
        with concurrent.futures.ThreadPoolExecutor(2) as side_by_side:
            yield from zip(found, side_by_side.map(
                lambda path: self.grade(path.parent.name, path, *words, STAGES_EXERCISE=f"{kind}/{path.parent.name}/{path.name}"), found))

    def lost(self, grade):
        # Without a sanitizer, what is written beyond an array may stay without consequence.
        most = 60 if listed()[0] == "cpu" else 95
        self.assertEqual(grade["broken"], "")
        self.assertLess(grade["points"], most)
        self.assertTrue(any(c["reason"] for c in grade["classes"]))
        for c in grade["classes"]:  # what the kernel did, and not how the launch ended
            self.assertNotRegex(c["reason"], "launch failure")

    def full(self, grade):
        self.assertEqual(grade["points"], 100, json.dumps(grade, indent=1))
        self.assertGreaterEqual(sum(c["good"] and c["counts"] for c in grade["classes"]), 5)
        self.assertTrue(all(d["met"] for d in grade["efficiency"]))

    def test_ranks_are_started_as_asked_for(self):
        built, name = self.prebuilt("graded_exercises"), "gather_rows.cpp"
        if "02_mpi" not in steps_that_run():
            self.skipTest("there are no ranks")
        file = self.write(name)
        words, exercise = ("02_mpi", file, "--built", built), f"solution/02_mpi/{name}"
        done = run(PROGRAM, "grade", *words, STAGES_MPIRUN="/no/mpirun", STAGES_EXERCISE=exercise)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/no/mpirun: there is no such program", done.stderr)
        grade = self.grade(*words, STAGES_MPIRUN="  mpirun -q ", STAGES_EXERCISE=exercise)
        self.assertEqual(grade["points"], 100, grade)

    def test_every_task_loses_points(self):
        graded = 0
        for path, grade in self.each(solution=False):
            with self.subTest(exercise=f"{path.parent.name}/{path.name}"):
                self.lost(grade)
            graded += 1
        self.assertGreaterEqual(graded, 3)

    def test_every_solution_gets_all(self):
        for path, grade in self.each(solution=True):
            with self.subTest(exercise=f"{path.parent.name}/{path.name}"):
                self.full(grade)


class WholeWay(Case):
    """From the master to the points, with the compiling."""

    def test_one_of_each_kind(self):
        for stage, name, solution in (("01_cpu_serial", "csr_spmv.cpp", False), ("02_mpi", "gather_rows.cpp", True), (STAGE, NAME, False),
                                      (STAGE, NAME, True), ("micro", "15_shuffle_reduction.cu", True)):
            with self.subTest(exercise=f"{stage}/{name}", solution=solution):
                if step_of(stage, name) not in steps_that_run():
                    self.skipTest(f"{stage} is not in this build")
                (Exercises.full if solution else Exercises.lost)(self, self.whole_way(stage, name, solution))

    def test_what_does_not_compile(self):
        if STAGE not in listed()[1]:
            self.skipTest("this build has no CUDA steps")
        file = self.write(NAME, exercises.made(ROOT / STAGE / "exercises" / NAME, True).replace("T sum = 0;", "T sum = zero;"))
        done = self.graded(STAGE, file, "--json")
        grade = json.loads(done.stdout)["grades"][0]
        self.assertEqual(grade["points"], 0)
        self.assertRegex(grade["broken"], rf"^does not compile:\n{NAME}:\d+:\d+: error: .*zero")
        self.assertRegex(done.stderr, rf"^(NOT CONFINED: .*\n)?{re.escape(str(file))}: compiling\n$")


PLACE = r"^misbehaving\.cu:\d+: "
RACE = r"^a race: write-after-write hazard .* writes at \S*misbehaving\.cu:\d+"

# What misbehaving.cu does, in which exercise: its demands, the reason for which each is lost ("^$": it is not), and the points.
MISBEHAVING = [
    ("", STAGE, NAME, {"At most: 45 requests in loads of rows": "^$"}, 100),
    ("searching", STAGE, NAME, {"At most: 45 requests in loads of rows": PLACE + r"[\d,]{4,}; all lines together: [\d,]+$"}, 80),
    ("", STAGE, "warp_per_row.cu", {"At most: 700 requests in loads of values": "^$",
                                    "At most: 2.3 sectors a request in loads of values": PLACE + r"17\.\d a request, in 327 requests$"}, 90),
    ("thrice", STAGE, "warp_per_row.cu", {"At most: 700 requests in loads of values": PLACE + "981$",
                                          "At most: 2.3 sectors a request in loads of values": PLACE + r"17\.\d a request, in 981 requests$"}, 80),
    ("thrice", "03_cuda_naive", "last_rows.cu", {"At most: 640 threads": "^there are 768 threads$"}, 80),
    ("", "03_cuda_naive", "dense_transposed.cu", {"At most: 4.1 sectors a request in loads of values": PLACE + r"17\.\d a request"}, 80),
    ("", "06_cuda_register", "row_in_registers.cu", {"At most: 400 requests in loads of values": PLACE + r"2,6\d\d$"}, 80),
    ("thrice", "06_cuda_register", "kept_vector.cu", {"At most: 400 requests in loads of x": PLACE + "981$"}, 80),
    ("racing", "04_cuda_shared", "last_block.cu", {"At most: 200 requests in loads of x": PLACE + "327$", "No race": RACE}, 80),
    ("racing", "04_cuda_shared", "shared_vector.cu", {"At most: 200 requests in loads of x": PLACE + "327$",
                                                      "At most: 4.1 sectors a request in loads of values": PLACE + r"17\.\d a request",
                                                      "No race": RACE}, 80),
]

class Answers(Case):
    """Those of answers.py: what is right and wasteful was built before, what is wrong goes the whole way."""

    def built(self, number, answer):
        stage, name = answers.place(answer)
        bin = PROGRAM.parent
        # Blocks one after another: what races is right all the same.
        return self.grade(stage, self.write(f"{number}/{name}"), "--built", bin / "graded_exercises", "--counted", bin / "counted_exercises",
                          STAGES_EXERCISE=answers.key(number), STAGES_WORKERS="1")

    def compiled(self, number, answer):
        stage, name = answers.place(answer)
        return self.grade(stage, self.write(f"{number}/{name}", answers.text(answer)))

    def each(self, all_of_them, graded):
        steps = steps_that_run()
        chosen = [(number, answer) for number, answer in enumerate(all_of_them) if step_of(*answers.place(answer)) in steps]
        with concurrent.futures.ThreadPoolExecutor(2) as side_by_side:
            yield from zip([answer for _, answer in chosen], side_by_side.map(graded, *zip(*chosen)))

    def test_right_and_wasteful(self):
        self.prebuilt("counted_exercises")
        for (name, _, demands), grade in self.each(answers.WASTEFUL, self.built):
            with self.subTest(exercise=name, demands=demands):
                self.assertEqual((grade["broken"], [c["reason"] for c in grade["classes"] if c["reason"]]), ("", []))
                self.assertIn(grade["points"], range(80, 95))
                lost = {d["demand"]: d["reason"] for d in grade["efficiency"] if not d["met"]}
                self.assertEqual(list(lost), list(demands))
                for demand, reason in demands.items():
                    self.assertRegex(lost[demand], reason)

    def test_wrong(self):
        if listed()[0] != "cpu":
            self.skipTest("AddressSanitizer sees no GPU")
        for (name, _, reason), grade in self.each(answers.WRONG, self.compiled):
            with self.subTest(exercise=name, reason=reason):
                self.assertLess(grade["points"], 60)
                self.assertRegex("\n".join([grade["broken"]] + [c["reason"] for c in grade["classes"]]), reason)


class Hints(Case):
    """They come one by one, and no file that a student gets has them."""

    def test_one_after_the_other(self):
        for master in exercises.masters("micro"):
            shown = [run(PROGRAM, "grade", "micro", master.name, "--hint", n) for n in (1, 2, 3, 9)]
            with self.subTest(exercise=master.name):
                self.assertEqual([done.returncode for done in shown], [0] * 4, shown)
                lines = [done.stdout.splitlines() for done in shown]
                self.assertRegex(lines[0][0], f"^{re.escape(master.name)}: (fill in|find the fault)")
                self.assertEqual(lines[2], lines[3])
                self.assertIn("?", lines[0][1], "the first hint is a question")
                for n in range(3):
                    self.assertRegex(lines[2][n + 1], rf"^  {n + 1} of 3: \S.*\S$")
                    self.assertEqual(lines[n][: n + 2], lines[2][: n + 2])
                self.assertEqual([said[-1] for said in lines[:2]], ["  The next one: --hint 2", "  The next one: --hint 3"])
                self.assertEqual([len(said) for said in lines], [3, 4, 4, 4])

    def test_they_stay_with_the_master(self):
        for master in exercises.masters("micro"):
            hints = exercises.HINT.findall(master.read_text())
            for solution in (False, True):
                made = exercises.made(master, solution)
                self.assertNotIn("Hint", made, master.name)
                self.assertFalse([hint for hint in hints if hint.splitlines()[-1] in made], master.name)

    def test_an_exercise_without(self):
        done = run(PROGRAM, "grade", "01", "csr_spmv.cpp", "--hint", "1")
        self.assertEqual((done.returncode, done.stdout.splitlines()[1]), (0, "  This exercise has no hints."))


class Misbehaving(Case):
    """One file that does as it is told (misbehaving.cu), built before; or another, where a class names one."""

    BUILT, STAGE, NAME = "graded_misbehaving", STAGE, NAME

    def setUp(self):
        super().setUp()
        self.backend = listed()[0]
        if self.STAGE not in steps_that_run():
            self.skipTest(f"{self.STAGE} cannot run here")
        self.built = self.prebuilt(self.BUILT)
        self.empty = self.write(self.NAME)
        self.counted = PROGRAM.parent / "counted_misbehaving"

    def misbehave(self, how, *words, stage=None, name=None, **environment):
        return self.grade(stage or self.STAGE, self.write(name or self.NAME), "--built", self.built, *words, STAGES_MISBEHAVE=how, **environment)

    def attack(self, how, reason, **environment):
        """It gets no point, for this reason (a pattern), and soon. A case has few seconds only where it may hang: what is told of for something else
        has the time that it takes beside all else that this machine does."""
        start = time.monotonic()
        counted = ["--counted", self.counted] if how in COUNTED else []
        grade = self.misbehave(how, "--time-limit", "4" if "hangs" in reason else "20", "--memory-limit", "0.5", *counted, **environment)
        with self.subTest(attack=how, **environment):
            self.loses_all(grade, reason)
            self.assertLess(time.monotonic() - start, 60)

    def attacks(self, reasons, at_once, **environment):
        with concurrent.futures.ThreadPoolExecutor(at_once) as side_by_side:
            for done in [side_by_side.submit(self.attack, how, reason, **environment) for how, reason in reasons.items()]:
                done.result()

    def lost(self, how, reason, *words, all_of_them=False):
        grade = self.misbehave(how, *words)
        lost = [c for c in grade["classes"] if c["reason"]]
        self.assertEqual(grade["broken"], "", how)
        self.assertTrue(lost, how)
        for c in lost:
            self.assertRegex(c["reason"], reason, how)
            self.assertFalse(c["good"])
        self.assertTrue(not all_of_them or lost == grade["classes"], how)
        self.assertLess(grade["points"], 100)


class Behaviour(Misbehaving):
    def test_what_it_may_do(self):
        self.assertEqual(self.misbehave("")["points"], 100)
        for how, reason in (("nothing", "is NaN: not written"), ("throw", "throws: the device is gone"),
                            ("refuse", "refuses what it should run: more than 0 rows")):
            self.lost(how, reason, all_of_them=True)
        self.lost("hang", "hangs: no result after (1|0.2) s", "--time-limit", "1")

    def test_out_of_bounds(self):
        if self.backend != "cpu":
            self.skipTest("AddressSanitizer sees no GPU")
        name = "misbehaving.cu"
        self.lost("write_beyond", rf"reads or writes .*{name}:\d+ in multiply")
        self.lost("read_beyond", rf"reads or writes (where there is no memory:|out of bounds: heap-buffer-overflow,) {name}:\d+ in multiply")
        self.lost("null_pointer", rf"reads or writes where there is no memory: {name}:\d+ in multiply")

    def test_the_wrong_number_of_entries(self):
        self.assertIn("registers 2 entries", self.misbehave("two_entries")["broken"])

    def test_seeds(self):
        def expected(*words):
            grade = self.misbehave("zeros", *words)
            return [c["reason"] for c in grade["classes"] if c["reason"]]
        plain = expected()
        self.assertRegex(plain[0], r"is 0, expected")
        self.assertEqual(plain, expected("--seed", "1"))
        others = [expected(*words) for words in (("--seed", "7"), ("--seed-from", "Ada"), ("--seed-from", "Ada B."))]
        self.assertEqual(others[1], expected("--seed-from", "Ada"))
        self.assertEqual(len({said[0] for said in [plain, *others]}), 4)
        self.assertEqual(self.misbehave("", "--seed-from", "Ada")["points"], 100)
        self.refused("--seed and --seed-from both name a seed; leave one of them out", STAGE, self.empty, "--seed", "7", "--seed-from", "Ada")

    def test_text(self):
        done = run(PROGRAM, "grade", STAGE, self.empty, "--built", self.built, STAGES_MISBEHAVE="throw")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"^(NOT CONFINED: .*\n)?{re.escape(str(self.empty))}: running the battery\n$")
        self.assertRegex(done.stdout, r"row_lengths\.cu: 0 of 100 points\n  find the fault.*\n  lost  nothing to multiply  .*throws")


class Efficiency(Misbehaving):
    """What is right, and wasteful: all classes are good, and the demand is lost with the line that breaks it."""

    def setUp(self):
        super().setUp()
        self.prebuilt("counted_misbehaving")

    def test_what_is_right_and_wasteful(self):
        for how, stage, name, expected, points in MISBEHAVING:
            with self.subTest(how=how, exercise=f"{stage}/{name}"):
                grade = self.misbehave(how, "--counted", self.counted, stage=stage, name=name)
                self.assertEqual((grade["broken"], [c["reason"] for c in grade["classes"] if c["reason"]], grade["points"]), ("", [], points))
                self.assertEqual([d["demand"] for d in grade["efficiency"]], list(expected))
                for demand in grade["efficiency"]:
                    self.assertRegex(demand["reason"], expected[demand["demand"]])

    def test_text(self):
        done = run(PROGRAM, "grade", STAGE, self.empty, "--built", self.built, "--counted", self.counted, STAGES_MISBEHAVE="searching")
        self.assertRegex(done.stdout, r"80 of 100 points\n(.*\n)+  lost  efficiency: At most: 45 requests in loads of rows\n        misbehaving\.cu:\d+: ")

    def test_lens(self):
        """Each line of a right kernel, with its source; what is of another file by its name."""
        name = "warp_per_row.cu"
        source = exercises.made(ROOT / STAGE / "exercises" / name, True)
        lens = lambda *words, file=self.empty, **environment: self.graded(STAGE, file, "--lens", *words, **environment).stdout
        said = lens("--built", self.prebuilt("graded_exercises"), "--counted", self.prebuilt("counted_exercises"), file=self.write(name, source),
                    STAGES_EXERCISE=f"solution/{STAGE}/{name}")
        rows = re.findall(r"(?m)^    (global|shared) (load|store|atomic) +(\d+) B +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+)  +(\d+) \| (.*)$", said)
        self.assertGreaterEqual(len(rows), 3, said)
        for *_, lanes, takes, least, line, text in rows:
            self.assertEqual(text.rstrip(), source.splitlines()[int(line) - 1].rstrip())
            self.assertGreaterEqual(float(takes), float(least))
            self.assertLessEqual(float(lanes), 32)
        self.assertRegex(said, r"\n  What its kernels did in a product of gen:\S+ \(docs/lens\.md explains the columns\):\n")
        both = ("--built", self.built, "--counted", self.counted)
        self.assertRegex(lens(*both, STAGES_MISBEHAVE="searching"), r"\n    global load +4 B +[\d,]+ .*  misbehaving\.cu:\d+\n")
        self.assertRegex(lens(*both, STAGES_MISBEHAVE="throw"), r"\n\n  not counted: only what is right is\n$")
        self.assertRegex(lens("--built", self.built, STAGES_MISBEHAVE=""), r"\n\n  not counted: no program for that was built\n$")
        self.refused("--lens prints a text; leave --format and --json out", STAGE, self.empty, "--lens", "--json")

    def test_not_counted(self):
        grade = self.misbehave("searching")
        self.assertEqual((grade["points"], grade["efficiency"], grade["efficiency_note"]), (100, [], "not counted: no program for that was built"))


# What a file may try instead of multiplying, and what its author is told. The longest comes first.
ATTACKS = {
    "hang_at_start": "before the first case it hangs",
    # The attacks of a review: a smaller exam, forged notes, a definition of the judge's own names (misbehaving.cu has one
    # always), what is multiplied where nobody looks at the clock, and what reaches out of the process.
    "shrink": "is 0, expected",
    "zeros": "is 0, expected",
    "forge": "before the first case it ends the program",
    "in_fetch": "it is the product of the first: kept, or made by load, reset or fetch$",
    "in_load": "kept, or made by load, reset or fetch",
    "previous": "it returns the previous answer, whatever is loaded$",
    "attack:daemon": "is NaN: not written",
    "attack:fork_bomb": "throws|hangs|memory|crashes|ends the program|answers",  # all of them speak at once
    "attack:flood": "writes more than 16 MB of text",
    "attack:disk": "no more disk|writes more than 1 GB to the disk|hangs",
    "attack:network": "is NaN: not written",
    "attack:read": "is NaN: not written",
    "attack:write": "is NaN: not written",
    # And others.
    "attack:kill": "is NaN: not written|crashes|ends the program",
    "attack:debug": "is NaN: not written",
    "attack:root": "is NaN: not written",
    "attack:threads": "throws: Resource temporarily unavailable|crashes|ends the program|memory",
    "attack:memory": "memory",
    "attack:memory_of_a_child": "memory|hangs",
    "attack:long_text": "^[^\n\033]*throws: +\\.\\.\\.$",
    "attack:longer_text": "answers with 50000000 bytes",
    "attack:long_summary": "ends the program|a{300}\\.\\.\\.",
    "attack:throw_a_number": "throws: something that is no std::exception",
    "attack:stop": "hangs",
    "attack:hang_up": "hangs up without ending",
    "attack:nonsense": "answers what is no answer",
    "attack:huge": "answers with 18446744073709551615 bytes",
    "attack:ahead": "answers what is no answer|is NaN|the result is",
    "attack:no_result": "answers what is no result",
    "attack:drip": "hangs|answers what is no answer",
    "only_once": "is NaN: not written|ends the program, with exit code 3",
    "another_shape": "the result is 1073741824 x",
    "exit": "ends the program",
    "abort": "crashes: SIGABRT|AddressSanitizer|ABRT",
}


# Those that tools/verify-gpu.sh tries on a GPU.
ON_A_GPU = ["zeros", "in_fetch", "in_load", "previous", "attack:flood", "attack:memory"]


# What a right file may try where its kernels are counted, or multiplied elsewhere than in run().
COUNTED = {
    "counted:copies": "its kernels read 0 bytes in run\\(\\), and such a product needs [0-9,]+ at least",
    "counted:copies_by_kernel": "its kernels read [0-9,]+ bytes in run\\(\\), and such",
    "counted:on_the_host": "its kernels read 0 bytes in run",
    "counted:another_stream": "goes on in a stream that nobody waits for",
    "counted:unseen": "its kernels read 0 bytes in run",
    "counted:nothing": "its kernels read 0 bytes in run",
    "counted:less": "its kernels read (32|128) bytes in run",
    "counted:no_stores": "its kernels write 0 bytes in run",
    "counted:huge": "its counts are none",
    "counted:contradiction": "its counts are none",
    "counted:noise": "answers what are no counts",
    "counted:endless": "answers what are no counts: a message ends too early",
    "counted:much": "answers with 50000000 bytes, where 4000000 are the most",
    "counted:crash": "crashes",
    "counted:hang": "hangs",
    "counted:throw": "throws: it is being counted",
    "counted:wrong": "is NaN: not written",
}


# What a file for the host may leave to be done elsewhere than in run() (misbehaving_host.cpp).
ON_THE_HOST = {
    "host:in_load": "it is the product of the first: kept, or made by load, reset or fetch$",
    "host:copied_in_load": r"^\S+ f(32|64): run\(\) multiplies what load\(\) has kept; it has to read the operands itself$",
    "host:in_next_load": "is NaN: not written",
    "host:in_fetch": r"where it is timed: run\(\) takes [0-9.e-]+ ms, and what comes after it, load\(\) and fetch\(\), takes [0-9.e+]+ ms$",
    "host:beside": r"where it is timed: run\(\) takes [0-9.e-]+ ms, and what comes after it, load\(\) and fetch\(\), takes [0-9.e+]+ ms$",
    "host:hang_when_timed": "where it is timed: hangs: no result after 4 s$",
    "host:hang_when_destroyed": r"^\S+ f(32|64): hangs when it is destroyed: no result after (4|0\.8) s$",
}


class OnAGpu(Misbehaving):
    """A short way through what is graded on a GPU, where nvcc takes long: the step `grade` of tools/verify-gpu.sh."""

    def setUp(self):
        super().setUp()
        if self.backend != "gpu" or shutil.which("nvidia-smi") is None:
            self.skipTest("there is no GPU")

    def test_exercises(self):
        names = [master.name for master in exercises.masters(STAGE)]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as side_by_side:
            for grade in side_by_side.map(lambda name: self.whole_way(STAGE, name, False), names):
                Exercises.lost(self, grade)
        # One after the other: their speed has points.
        for name in names:
            Exercises.full(self, self.whole_way(STAGE, name, True))

    def test_attacks(self):
        for how in ON_A_GPU:
            grade = self.misbehave(how, "--time-limit", "10", "--memory-limit", "4")
            with self.subTest(attack=how):
                self.loses_all(grade, ATTACKS[how])
        self.assertEqual(self.misbehave("")["broken"], "")
        self.assertEqual(left_of(self.built), [])


class OnTheHost(Misbehaving):
    """What is not multiplied in run() has no points where no kernels are counted, either."""

    BUILT, STAGE, NAME = "graded_misbehaving_host", "01_cpu_serial", "csr_spmv.cpp"

    def test_only_run_multiplies(self):
        grade = self.misbehave("", "--time-limit", "20")
        self.assertEqual((grade["points"], [c for c in grade["classes"] if c["reason"]]), (100, []))
        self.attacks(ON_THE_HOST, 1)


# What one of several ranks may do (misbehaving_ranks.cpp).
ON_RANKS = {
    "ranks:hang": "hangs: no result after",
    "ranks:memory": "takes more than 0.5 GB of memory",
    "ranks:fork_bomb": "ends the program: .*rank 1: no more processes|hangs|memory|crashes",
}


class OnRanks(Misbehaving):
    """The limits are of all that the student's program starts, ranks included."""

    BUILT, STAGE, NAME = "graded_misbehaving_ranks", "02_mpi", "gather_rows.cpp"

    def test_attacks(self):
        self.assertEqual(self.misbehave("", "--time-limit", "20", "--memory-limit", "0.5")["points"], 100)
        for bwrap in (["bwrap"] if confined() else []) + ["none"]:
            self.attacks(ON_RANKS, 3, STAGES_BWRAP=bwrap)
        self.assertEqual(left_of(self.built), [])


class Attacks(Misbehaving):
    """None of them gets a point, each gets its reason, and nothing of it is left."""

    def all_attacks(self, **environment):
        secret = self.write("secret", "another's hand-in")
        secret.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            environment |= {"STAGES_SECRET": str(secret), "STAGES_PORT": str(server.getsockname()[1])}
            # Without a namespace of networks and files nobody is kept from them, or who is no other user from this user's.
            open_to_all = set()
            if environment.get("STAGES_BWRAP") == "none":
                open_to_all = {"attack:network"} | (set() if os.geteuid() == 0 else {"attack:read", "attack:write", "attack:kill"})
            tried = ATTACKS | (COUNTED if self.counted.exists() else {})
            self.attacks({how: reason for how, reason in tried.items() if how not in open_to_all}, 4, **environment)
            with self.assertRaises(BlockingIOError):
                server.accept()
        self.assertEqual(secret.read_text(), "another's hand-in")
        self.assertEqual(left_of(self.built), [])
        if os.geteuid() == 0:
            self.assertEqual(list(pathlib.Path("/tmp").glob("disk*")), [])

    def test_confined(self):
        if not confined():
            self.skipTest("bubblewrap is not there, or cannot work here")
        self.all_attacks()

    def test_without_bubblewrap(self):
        self.all_attacks(STAGES_BWRAP="none")

    def test_bubblewrap_that_is_not_there(self):
        self.refused("STAGES_BWRAP=/no/bwrap: there is no such program", STAGE, self.empty, "--built", self.built, STAGES_BWRAP="/no/bwrap")
        done = run(PROGRAM, "grade", STAGE, self.empty, "--built", self.built, STAGES_BWRAP="/bin/false")
        self.assertRegex(done.stderr, "NOT CONFINED: bubblewrap cannot work here")

    def test_what_is_exported_changes_no_exam(self):
        grade = self.misbehave("zeros", STAGES_BATTERY_ONLY="empty", STAGES_BATTERY="full")
        self.assertGreater(len(grade["classes"]), 3)

    def test_ctrl_c(self):
        for signal_sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for bwrap in (["bwrap"] if confined() else []) + ["none"]:
                place = self.directory / "tmp"
                place.mkdir(exist_ok=True)
                place.chmod(0o755)
                grading = subprocess.Popen([PROGRAM, "grade", STAGE, self.empty, "--built", self.built], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, env={**os.environ, "STAGES_MISBEHAVE": "hang", "STAGES_BWRAP": bwrap, "TMPDIR": str(place)})
                # Not before the hand-in itself runs: bwrap asks to be ended with its parent only once it has started, and does not look
                # whether that is there still.
                wait_until(lambda: left_of(self.built, first_word=True))
                grading.send_signal(signal_sent)
                self.assertEqual(grading.wait(20), -signal_sent)
                wait_until(lambda: not left_of(self.built))
                if signal_sent != signal.SIGKILL:
                    self.assertEqual(list(place.iterdir()), [])
                shutil.rmtree(place)


def confined():
    """Whether bubblewrap works here."""
    return subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, check=False).returncode == 0 if shutil.which("bwrap") else False


def left_of(program, first_word=False):
    """Processes that run this program, or have its name among their words."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text(errors="replace").split("\0")
            if any(program.name in word for word in words[: 1 if first_word else None]) and "grade" not in words:
                found.append(process.name)
    return found


class Hostile(Case):
    """Sources that attack whoever compiles them. C++ on the host, which is compiled in no time."""

    STAGE, NAME = "01_cpu_serial", "csr_spmv.cpp"
    EMPTY = "namespace stages { class Registry; void add_task(Registry&) {} }\n"

    def setUp(self):
        super().setUp()
        self.secret = self.write("secret.txt", "the_secret of another\n")
        self.secret.chmod(0o600)

    def broken(self, text, reason, **environment):
        start = time.monotonic()
        grade = self.grade(self.STAGE, self.write(self.NAME, text), **environment)
        with self.subTest(text=text[:200], **environment):
            self.assertEqual(grade["points"], 0)
            self.assertRegex(grade["broken"], reason)
            self.assertNotIn("the_secret", json.dumps(grade))
            self.assertLess(time.monotonic() - start, 60)

    def sources(self, **environment):
        master = ROOT / "01_cpu_serial/2_csr_spmv_plain.cpp"
        solution = ROOT / "01_cpu_serial/exercises" / self.NAME
        for include in (master.relative_to(ROOT), solution.relative_to(ROOT), master, solution, f"/usr/..{solution}", f"/proc/self/root{solution}",
                        self.secret, "common/kernels/../../01_cpu_serial/exercises/csr_spmv.cpp"):
            text = f'#include "{include}"\n' + (self.EMPTY if "exercises" not in str(include) else "")
            self.broken(text, "^does not compile:\n(.*(No such file|Permission denied)|it includes |.*neither yours nor of the project)", **environment)
        self.broken(f'asm(".incbin \\"{self.secret}\\"");\n' + self.EMPTY, "^does not compile:\n.*(file not found|Permission denied|No such file)", **environment)
        self.broken("namespace stages { class Registry; void add_01_cpu_serial(Registry&); void add_task(Registry& r) { add_01_cpu_serial(r); } }\n",
                    "^does not compile:\n.*undefined reference to .*add_01_cpu_serial", **environment)

    def test_what_lies_elsewhere(self):
        if not confined():
            self.skipTest("bubblewrap is not there, or cannot work here")
        self.sources()

    @unittest.skipIf(os.geteuid() != 0, "who is not root has no other user")
    def test_what_lies_elsewhere_without_bubblewrap(self):
        self.sources(STAGES_BWRAP="none")

    def test_a_compiler_that_eats_memory(self):
        self.broken('asm(".fill 9000000000, 1, 0");\n' + self.EMPTY, "memory|too large|fill|more than", STAGES_BWRAP="none")
        self.broken('#include "/dev/zero"\n' + self.EMPTY, "memory|too large|No such file|neither yours|not a regular file|stray|character device|it includes", STAGES_BWRAP="none")
        self.broken("template <class... T> struct S {};\ntemplate <class... T> S<T..., T..., T..., T...> four(S<T...>);\n"
                    "template <int n> struct F { using X = decltype(four(typename F<n - 1>::X())); };\n"
                    "template <> struct F<0> { using X = S<int>; };\nusing Y = F<14>::X;\n" + self.EMPTY, "the compiler takes more than 4 GB of memory")

    def test_what_is_no_task(self):
        for text in ("", "namespace stages { int add_task(int) { return 0; } }"):
            self.broken(text, r"^does not compile:\nit defines no void stages::add_task\(stages::Registry&\); keep the end of the exercise's file$")
        self.broken(self.EMPTY + "int main() {}\n", "^does not compile:\n.*multiple definition of `main'")
        self.broken(bytes(range(256)) * 20, "^does not compile:\n.*csr_spmv.cpp.*error")

    def test_messages_of_any_length(self):
        self.broken("//" * 1_000_000, "^does not compile:\nit has more than 1000000 bytes$")
        for length in (20_000, 100_000, 900_000):
            name = "a" * length
            self.broken(f"int x = {name};\n" + self.EMPTY, "^does not compile:\n(.*\n)*.*csr_spmv.cpp:1.*error.*aaa")

    def test_a_full_disk(self):
        place = self.directory / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k,mode=755", "tmpfs", place], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        file = self.write(self.NAME, "char big[4000000] = {1};\n" + self.EMPTY)
        done = run(PROGRAM, "grade", self.STAGE, file, TMPDIR=str(place))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, "the disk is full; free some room, or name another place in TMPDIR\n$|No space left on device")

    def test_a_small_stack(self):
        words = [PROGRAM, "grade", self.STAGE, self.write(self.NAME), "--json", "--built", self.prebuilt("graded_exercises")]
        done = run("sh", "-c", 'ulimit -s 64 && exec "$@"', "sh", *words, STAGES_EXERCISE=f"solution/{self.STAGE}/{self.NAME}", STAGES_BWRAP="none")
        self.assertNotIn(done.returncode, (-signal.SIGSEGV, 128 + signal.SIGSEGV), done.stderr)
        self.assertEqual(json.loads(done.stdout)["grades"][0]["points"], 100, done.stdout)


class Formats(Misbehaving):
    def text(self, how, form, **environment):
        return self.graded(STAGE, self.empty, "--built", self.built, "--format", form, STAGES_MISBEHAVE=how, **environment).stdout

    def test_gradescope(self):
        for how, points in (("", 100), ("previous", 0)):
            results = json.loads(self.text(how, "gradescope"))
            self.assertEqual((results["score"], sum(test.get("score", 0) for test in results["tests"])), (points, points))
            self.assertEqual(results["tests"][0] | {"output": ""}, {"name": NAME, "score": points, "max_score": 100, "output": "",
                                                                     "status": "passed" if points else "failed"})
        self.assertIn("previous answer", results["tests"][2]["output"])

    def test_classroom50(self):
        for how, points in (("", 100), ("previous", 0)):
            result = json.loads(self.text(how, "classroom50", CLASSROOM="hpc", ASSIGNMENT="lab", OWNER="ada", COMMIT_URL="https://example.org/1", REVIEW_URL=""))
            self.assertEqual((result["schema"], result["score"], result["max-score"]), ("classroom50/result/v1", points, 100))
            self.assertEqual([result.get(key) for key in ("classroom", "assignment", "owner", "commit", "review", "release")],
                             ["hpc", "lab", "ada", "https://example.org/1", "https://example.org/1", None])
            self.assertEqual(result["tests"][0] | {"output": ""}, {"test-name": NAME, "passed": points == 100, "score": points, "max-score": 100, "output": ""})
            self.assertGreater(len(result["tests"]), 5)
            for test in result["tests"][1:]:
                self.assertEqual((test["score"], test["max-score"]), (0, 0))
        self.assertIn("previous answer", result["tests"][2]["output"])

    def test_junit(self):
        for how, points, failures in (("", 100, 0), ("attack:long_text", 0, 8), ("forge", 0, 1)):
            suite, = xml.etree.ElementTree.fromstring(self.text(how, "junit"))
            self.assertEqual(suite.get("name"), f"{self.empty}: {points} of 100 points")
            self.assertEqual((int(suite.get("failures")), len(suite.findall("testcase/failure"))), (failures, failures))
            self.assertEqual(int(suite.get("tests")), len(suite))


class Usage(Case):
    def test_grade(self):
        another, mine = self.write("another.cpp"), self.directory / "csr_spmv.cpp"
        self.refused("STAGE is required")
        self.refused("'01_cpu' is no stage with exercises; .*'01_cpu_serial'", "01_cpu")
        self.refused("'1' is no stage", "1")
        self.refused("'' is no stage", "/")
        self.refused("there is no such file; tools/exercises.py 01_cpu_serial makes", "01_cpu_serial", mine)
        self.refused(": is a directory; name a file", "01_cpu_serial", self.directory)
        self.refused(": is no file", "01_cpu_serial", "/dev/null")
        mine.symlink_to("/etc/passwd")
        self.refused("csr_spmv.cpp: is a link; name the file itself", "01_cpu_serial", mine)
        for stage in ("01_cpu_serial", "01", "01_cpu_serial/"):  # by number, or as a shell completes it
            self.refused("01_cpu_serial has no exercise of that name; .*csr_spmv.cpp", stage, another)
        self.refused("--battery", "01_cpu_serial", "--battery", "huge")
        self.refused("--json and --format junit are two forms", "01_cpu_serial", "--json", "--format", "junit")
        self.refused("--time-limit", "01_cpu_serial", "--time-limit", "-1")
        self.refused("--hint needs an exercise: stages grade micro EXERCISE --hint 2", "micro", "--hint", "2")
        self.refused("--hint", "micro", "06_thread_index.cu", "--hint", "0")
        self.refused("no exercise of that name; .*06_thread_index.cu", "micro", "06_thread_idex.cu", "--hint", "1")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_that_may_not_be_read(self):
        file = self.write("csr_spmv.cpp")
        file.chmod(0)
        self.refused("csr_spmv.cpp: cannot be read: Permission denied", "01_cpu_serial", file)

    def test_stages_that_are_left_out(self):
        _, stages = listed()
        for stage in sorted({p.parent.name for p in ROOT.glob("[0-9][0-9]_*/exercises")} - stages):
            self.refused(f"{stage}: left out of this build: it needs", stage, self.directory / "any.cu")

    def make(self, *words):
        return run(sys.executable, ROOT / "tools/exercises.py", *words)

    def test_files_are_kept(self):
        mine = self.directory / "mine"
        self.assertEqual(self.make("01", "-o", mine).returncode, 0)
        file = mine / "csr_spmv.cpp"
        self.assertNotRegex(file.read_text(), "// (SOLUTION|STUDENT|END)\n|sum \\+=")
        file.write_text("mine")
        self.assertIn("kept", self.make("01_cpu_serial", "-o", mine).stdout)
        self.assertEqual(file.read_text(), "mine")
        self.make("01_cpu_serial", "-o", mine, "--solutions", "--force")
        self.assertIn("sum +=", file.read_text())
        self.make("05_cuda_csr", "07_spmm", "-o", mine)
        five, seven = ((mine / stage / "warp_per_row.cu").read_text() for stage in ("05_cuda_csr", "07_spmm"))
        self.assertNotEqual(five, seven)

    def test_exercises(self):
        file = self.write("file")
        for words, expected in ((["01_cpu"], "is no stage with exercises"), (["--solutions"], "needs -o"),
                                (["01", "-o", file], "file: cannot be written: File exists; give another directory"),
                                (["-o", file], "01_cpu_serial: cannot be written: Not a directory")):
            self.refuses(lambda: self.make(*words), "exercises: error: ", expected)

    def test_marks_out_of_place(self):
        for text in ("int x;\n", "// SOLUTION\n// END\n", "// SOLUTION\n// STUDENT\n// END\n// STUDENT\n"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                exercises.made(self.write("master.cpp", text), False)
            self.assertIn("each part needs all three", said.getvalue())


if __name__ == "__main__":
    unittest.main()
