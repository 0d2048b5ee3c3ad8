"""What the tests of labs and of classes share: a program that plays `stages grade`, and hand-ins."""

import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import Played, given  # noqa: E402

PROGRAM, ROOT = given("program", "root")
sys.path.insert(0, str(ROOT / "tools"))
import exercises  # noqa: E402

HOST, CUDA = "01_cpu_serial/csr_spmv.cpp", "05_cuda_csr/row_lengths.cu"

# Plays `stages grade STEP FILE --format FORM | --json`: what comes out is told by the file's text.
PLAYED = r'''#!{python}
import json, os, pathlib, re, signal, sys, time
step, file = sys.argv[2], pathlib.Path(sys.argv[3])
form = "json" if "--json" in sys.argv else sys.argv[sys.argv.index("--format") + 1]
text = file.read_text()
said = re.search(r"points (\d+)(?: because (.*))?", text)
points, why = (int(said[1]), said[2] or "") if said else (0, "nothing")
if "slow" in text:
    log, seconds = (pathlib.Path(__file__).with_name(name) for name in ("log", "seconds"))
    with log.open("a") as out: print("begins", os.getpid(), file=out)
    time.sleep(float(seconds.read_text()) if seconds.exists() else 0.5)
    with log.open("a") as out: print("ends", file=out)
if "--hint" in sys.argv:
    sys.exit(print("1 of 3: think"))
print("NOT CONFINED: played", file=sys.stderr)
if "trouble" in text:
    print("stages: error: the disk is full", file=sys.stderr)
    sys.exit(2)
lost = [dict([("class", "square matrices"), ("counts", True), ("good", False), ("reason", why)])] if why else []
if form == "classroom50":
    test = {"test-name": file.name, "passed": points == 100, "score": points, "max-score": 100, "output": why}
    out = {"schema": "classroom50/result/v1", "score": points, "max-score": 100, "tests": [test]}
else:
    out = dict(grades=[dict(points=points, broken="", classes=lost, speed_note="")])
print(json.dumps(out))
sys.exit(points != 100)
'''


def made(exercise, solution=False):
    """An exercise as students get it, or its solution."""
    step, name = exercise.split("/")
    return exercises.made(ROOT / step / "exercises" / name, solution)


class Case(Played):
    def setUp(self):
        super().setUp()
        self.played = self.write("played", PLAYED.replace("{python}", sys.executable))
        self.played.chmod(0o755)

    def make(self, *words):
        return self.call(ROOT / "tools/make-autograder.sh", *words).stdout

    def refused(self, expected, *words):
        self.refuses(lambda: self.call(*words, code=2), "[a-z-]+: ", expected)
