#!/usr/bin/env python3
"""Exercises and their grading: every task loses points, every solution gets all of them, and a student's file may do
what it likes without harm to the grader.

The exercises are in a program that was built before (tests/exercises); of each kind of file one goes the whole way.

usage: grade_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM = None
ROOT = None
LIMIT = 600  # seconds that one command may take; a compiler is among them
STAGE, NAME = "05_cuda_csr", "row_lengths.cu"


def tools():
    spec = importlib.util.spec_from_file_location("exercises", ROOT / "tools/exercises.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*words, **environment):
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False,
                          env={**os.environ, **environment})


def listed():
    """What this build has: its backend, and the stages with entries."""
    data = json.loads(run(PROGRAM, "list", "--json").stdout)
    return data["backend"], {entry["stage"] for entry in data["entries"]}


class Case(unittest.TestCase):
    def setUp(self):
        # The same place each time, so that a compiler cache knows the files again.
        self.directory = PROGRAM.parent.parent / "grade" / type(self).__name__
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, self.directory)

    def grade(self, stage, file, *words, **environment):
        """The grade of one file, from the JSON."""
        done = run(PROGRAM, "grade", stage, file, "--json", *words, **environment)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        grade = json.loads(done.stdout)["grades"][0]
        self.assertEqual(done.returncode == 0, grade["points"] == grade["of"])
        return grade


class Exercises(Case):
    def each(self, solution):
        exercises = tools()
        backend, stages = listed()
        built = PROGRAM.parent / "graded_exercises"
        # For a GPU they are only built where somebody asks for the target, and else here, one by one.
        words = ["--built", built] if backend == "cpu" or built.exists() else []
        if not solution:
            words += ["--time-limit", "3"]  # one of them hangs, class by class; a solution takes a tenth of it
        kind = "solution" if solution else "task"
        for stage in sorted(p.parent.name for p in ROOT.glob("[0-9][0-9]_*/exercises")):
            if stage not in stages or (stage == "02_mpi" and shutil.which("mpirun") is None):
                continue
            masters = exercises.masters(stage)
            self.assertGreaterEqual(len(masters), 2, stage)
            kinds = set()
            for master in masters:
                text = master.read_text()
                kinds.add(re.search(r"// Task: (fill in|find the fault)", text).group(1))
                with self.subTest(exercise=f"{stage}/{master.name}"):
                    self.assertIn(f"`{master.name}`", (ROOT / stage / "README.md").read_text())
                    # All are in one program, where equal names outside of it would be one.
                    self.assertRegex(text, r"(?m)^namespace \{$")
                    path = self.directory / master.name
                    path.write_text(exercises.made(master, solution))
                    yield self.grade(stage, path, *words, STAGES_EXERCISE=f"{kind}/{stage}/{master.name}")
            self.assertEqual(len(kinds), 2, f"{stage}: of each kind there must be one")

    def lost(self, grade):
        # Without a sanitizer, what is written beyond an array may stay without consequence.
        most = 60 if listed()[0] == "cpu" else 95
        self.assertEqual(grade["broken"], "")
        self.assertLess(grade["points"], most)
        self.assertTrue(any(c["reason"] for c in grade["classes"]))

    def full(self, grade):
        self.assertEqual(grade["points"], 100, json.dumps(grade, indent=1))
        self.assertGreaterEqual(sum(c["good"] and c["counts"] for c in grade["classes"]), 5)

    def test_every_task_loses_points(self):
        graded = 0
        for grade in self.each(solution=False):
            self.lost(grade)
            graded += 1
        self.assertGreaterEqual(graded, 3)

    def test_every_solution_gets_all(self):
        for grade in self.each(solution=True):
            self.full(grade)


class WholeWay(Case):
    """From the master to the points, with the compiling."""

    def made(self, stage, name, solution):
        if stage not in listed()[1] or (stage == "02_mpi" and shutil.which("mpirun") is None):
            self.skipTest(f"{stage} is not in this build")
        path = self.directory / name
        path.write_text(tools().made(ROOT / stage / "exercises" / name, solution))
        return self.grade(stage, path)

    def test_a_task_on_the_host(self):
        Exercises.lost(self, self.made("01_cpu_serial", "csr_spmv.cpp", False))

    def test_a_solution_on_ranks(self):
        Exercises.full(self, self.made("02_mpi", "gather_rows.cpp", True))

    def test_a_task_with_kernels(self):
        Exercises.lost(self, self.made(STAGE, NAME, False))

    def test_a_solution_with_kernels(self):
        Exercises.full(self, self.made(STAGE, NAME, True))


class Behaviour(Case):
    """One file that does as it is told. It is compiled once."""

    def setUp(self):
        super().setUp()
        self.backend, stages = listed()
        if STAGE not in stages:
            self.skipTest("this build has no CUDA steps")
        self.file = self.directory / NAME
        shutil.copy(ROOT / "tests/grade/misbehaving.cu", self.file)

    def lost(self, how, reason, *words, classes=None):
        grade = self.grade(STAGE, self.file, *words, MISBEHAVE=how)
        lost = [c for c in grade["classes"] if c["reason"]]
        self.assertEqual(grade["broken"], "", how)
        self.assertTrue(lost, how)
        for c in lost:
            self.assertRegex(c["reason"], reason, how)
            self.assertFalse(c["good"])
        if classes is not None:
            self.assertEqual(len(grade["classes"]) - len(lost), classes, how)
        self.assertLess(grade["points"], 100)

    def test_what_it_may_do(self):
        self.assertEqual(self.grade(STAGE, self.file)["points"], 100)
        self.lost("nothing", "is NaN: not written", classes=0)
        # Where nothing is multiplied the answer is the same whatever is loaded.
        self.lost("previous", "it returns the previous answer, whatever is loaded$", classes=1)
        self.lost("in_fetch", "it is the product of the first: kept, or made by load, reset or fetch$", classes=1)
        self.lost("abort", "crashes: SIGABRT|AddressSanitizer|ABRT", classes=0)
        self.lost("exit", "ends the program", classes=0)
        self.lost("throw", "throws: the device is gone", classes=0)
        self.lost("refuse", "refuses what it should run: more than 0 rows", classes=0)
        self.lost("memory", "memory", "--memory-limit", "0.5", classes=0)

    def test_hangs(self):
        self.lost("hang", "hangs: no result after 1 s", "--time-limit", "1")

    def test_out_of_bounds(self):
        if self.backend != "cpu":
            self.skipTest("AddressSanitizer sees no GPU")
        self.lost("write_beyond", rf"reads or writes .*{NAME}:\d+ in multiply")
        self.lost("read_beyond", rf"reads or writes (where there is no memory:|out of bounds: heap-buffer-overflow,) {NAME}:\d+ in multiply")
        self.lost("null_pointer", rf"reads or writes where there is no memory: {NAME}:\d+ in multiply")

    def test_the_wrong_number_of_entries(self):
        self.assertIn("registers 2 entries", self.grade(STAGE, self.file, MISBEHAVE="two_entries")["broken"])

    def test_does_not_compile(self):
        self.file.write_text(self.file.read_text().replace("T sum = 0;", "T sum = zero;"))
        grade = self.grade(STAGE, self.file)
        self.assertEqual(grade["points"], 0)
        self.assertRegex(grade["broken"], rf"does not compile:\n.*{NAME}.*error.*zero")

    def test_text(self):
        done = run(PROGRAM, "grade", STAGE, self.file, MISBEHAVE="throw")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, f"{self.file}: compiling\n{self.file}: running the battery\n")
        self.assertRegex(done.stdout, r"row_lengths\.cu: 0 of 100 points\n  find the fault.*\n  lost  nothing to multiply  .*throws")


class Usage(Case):
    def refused(self, expected, *words):
        done = run(PROGRAM, "grade", *words)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, expected)

    def test_grade(self):
        (self.directory / "another.cpp").write_text("")
        self.refused("STAGE is required")
        self.refused("'01_cpu' is no stage with exercises; .*'01_cpu_serial'", "01_cpu")
        self.refused("there is no such file; tools/exercises.py 01_cpu_serial makes", "01_cpu_serial", self.directory / "csr_spmv.cpp")
        self.refused(": is a directory; name a file", "01_cpu_serial", self.directory)
        self.refused(": is no file", "01_cpu_serial", "/dev/null")
        (self.directory / 'a"quote').mkdir()
        (self.directory / 'a"quote' / "csr_spmv.cpp").write_text("")
        self.refused("no #include can name a path with a quote", "01_cpu_serial", self.directory / 'a"quote' / "csr_spmv.cpp")
        self.refused("has no exercise of that name; .*csr_spmv.cpp", "01_cpu_serial", self.directory / "another.cpp")
        self.refused("--battery", "01_cpu_serial", "--battery", "huge")
        self.refused("--time-limit", "01_cpu_serial", "--time-limit", "-1")

    def test_a_stage_by_number_or_as_a_shell_completes_it(self):
        (self.directory / "another.cpp").write_text("")
        for stage in ("01", "01_cpu_serial/"):
            self.refused("01_cpu_serial has no exercise of that name", stage, self.directory / "another.cpp")
        self.refused("'1' is no stage", "1")
        self.refused("'' is no stage", "/")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_that_may_not_be_read(self):
        file = self.directory / "csr_spmv.cpp"
        file.write_text("")
        file.chmod(0)
        self.refused("csr_spmv.cpp: cannot be read: Permission denied", "01_cpu_serial", file)

    def test_stages_that_are_left_out(self):
        _, stages = listed()
        for stage in sorted({p.parent.name for p in ROOT.glob("[0-9][0-9]_*/exercises")} - stages):
            self.refused(f"{stage}: left out of this build: it needs", stage, self.directory / "any.cu")

    def test_what_defines_no_task(self):
        file = self.directory / "csr_spmv.cpp"
        for content in (b"", b"namespace stages { int add_task(int) { return 0; } }"):
            file.write_bytes(content)
            grade = self.grade("01_cpu_serial", file)
            self.assertEqual(grade["points"], 0)
            self.assertEqual(grade["broken"], "does not compile:\nit defines no void stages::add_task(stages::Registry&); keep the end of the exercise's file")

    def test_a_main_too_many(self):
        file = self.directory / "csr_spmv.cpp"
        file.write_text("namespace stages { class Registry; void add_task(Registry&) {} }\nint main() {}\n")
        self.assertRegex(self.grade("01_cpu_serial", file)["broken"], "^does not compile:\n.*multiple definition of `main'")

    def test_a_binary(self):
        file = self.directory / "csr_spmv.cpp"
        file.write_bytes(bytes(range(256)) * 20)
        grade = self.grade("01_cpu_serial", file)
        self.assertEqual(grade["points"], 0)
        self.assertRegex(grade["broken"], "^does not compile:\n.*csr_spmv.cpp.*error")

    def make(self, *words):
        return run(sys.executable, ROOT / "tools/exercises.py", *words)

    def test_files_are_kept(self):
        mine = self.directory / "mine"
        self.assertEqual(self.make("01_cpu_serial", "-o", mine).returncode, 0)
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

    def test_exercises_by_number(self):
        self.assertEqual(self.make("01", "-o", self.directory).returncode, 0)
        self.assertTrue((self.directory / "csr_spmv.cpp").exists())

    def test_exercises(self):
        (self.directory / "file").write_text("")
        for words, expected in ((["01_cpu"], "is no stage with exercises"), (["--solutions"], "needs -o"),
                                (["01", "-o", self.directory / "file"], "file: cannot be written: File exists; give another directory"),
                                (["-o", self.directory / "file"], "01_cpu_serial: cannot be written: Not a directory")):
            done = self.make(*words)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^exercises: error: .*{expected}.*\n$")

    def test_marks_out_of_place(self):
        for text in ("int x;\n", "// SOLUTION\n// END\n", "// SOLUTION\n// STUDENT\n// END\n// STUDENT\n"):
            master = self.directory / "master.cpp"
            master.write_text(text)
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                tools().made(master, False)
            self.assertIn("each part needs all three", said.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    PROGRAM, ROOT = options.program.resolve(), options.root.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
