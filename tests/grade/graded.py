"""What the tests of the grader share: calls of `stages grade`, what is expected of a grade, and the student's file that misbehaves as it is told."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(1, __file__.rsplit("/", 2)[0])
from answers import exercises  # noqa: E402
import played  # noqa: E402

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

    def task_loses(self, grade):
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

    def refused(self, expected, *words, **environment):
        self.refuses(lambda: run(PROGRAM, "grade", *words, **environment), "stages: error: ", expected)


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
