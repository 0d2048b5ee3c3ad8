#!/usr/bin/env python3
"""Exercises and their grading: every task loses points, and every solution gets all of them. What attacks the grader is in attacks_tests.py.

The exercises are in a program that was built before (tests/exercises); of each kind of file one goes the whole way.

usage: grade_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import concurrent.futures
import contextlib
import io
import json
import os
import re
import sys
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from graded import NAME, PROGRAM, ROOT, STAGE, Case, Misbehaving, listed, run, step_of, steps_that_run
import answers
from answers import exercises

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
                self.task_loses(grade)
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
                (self.full if solution else self.task_loses)(self.whole_way(stage, name, solution))

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
