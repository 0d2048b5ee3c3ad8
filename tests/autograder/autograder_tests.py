#!/usr/bin/env python3
"""Labs for courses: what tools/make-autograder.sh puts into them, what grades a hand-in there, and a class at once.

Most of it with a program that plays `stages grade`; the zip with the real one, as the build has it.

usage: autograder_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import csv
import hashlib
import html
import importlib.util
import io
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import unittest
import zipfile

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import Played, given, wait_until  # noqa: E402

PROGRAM, ROOT = given("program", "root")
sys.path.insert(0, str(ROOT / "tools"))
import exercises  # noqa: E402
from autograder import grading  # noqa: E402

HOST, CUDA = "01_cpu_serial/csr_spmv.cpp", "05_cuda_csr/row_lengths.cu"
IDENTITY = {"CLASSROOM": "hpc", "ASSIGNMENT": "lab-5", "ASSIGNMENT_TYPE": "individual", "OWNER": "ada", "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
            "COMMIT_URL": "https://example.org/commit/1", "RELEASE_URL": "https://example.org/release/1"}

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


class Labs(Case):
    """What is in them."""

    def project(self, archive):
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            return {member.name.removeprefix("./"): tar.extractfile(member).read().decode() for member in tar if member.isfile()}

    def test_a_zip(self):
        file = self.directory / "lab.zip"
        self.assertRegex(self.make("--gradescope", file, "05_cuda_csr/exercises/row_lengths.cu", HOST), r"^written: .*lab\.zip \(\d+ KiB\): 2 exercise")
        with zipfile.ZipFile(file) as lab:
            self.assertEqual(set(lab.namelist()), {"setup.sh", "run_autograder", "grading.py", "packages.txt", "exercises.json", "stages.tar.gz"})
            self.assertEqual(json.loads(lab.read("exercises.json")), {"exercises": [CUDA, HOST]})
            packages = lab.read("packages.txt").decode().split()
            files = self.project(lab.read("stages.tar.gz"))
        self.assertIn("libboost-context-dev", packages)
        self.assertNotIn("openmpi-bin", packages)
        # Only these steps, and of their exercises only these, as students get them. No marks, no solutions.
        self.assertEqual({name.split("/")[0] for name in files if re.match(r"\d\d_", name)}, {"01_cpu_serial", "05_cuda_csr"})
        self.assertEqual({name for name in files if "/exercises/" in name}, {e.replace("/", "/exercises/") for e in (CUDA, HOST)})
        self.assertLessEqual({"common/student/main.cpp", "data/builtin.tsv"}, set(files))
        self.assertFalse([name for name in files if name.startswith(("tests/", "docs/", "results/")) or name.endswith(".md")])
        for exercise in (CUDA, HOST):
            self.assertEqual(files[exercise.replace("/", "/exercises/")], made(exercise))
        self.assertFalse([name for name, text in files.items() if re.search(r"(?m)^\s*// (SOLUTION|STUDENT|END)$", text) and name.startswith("0")])

    def test_a_folder(self):
        folder = self.directory / "lab"
        self.make("--classroom50", folder, "05")
        here = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        self.assertLessEqual({"README.md", "runtime.json", "Containerfile", "template/README.md", "template/row_lengths.cu", "template/warp_per_row.cu",
                              "template/grader/setup.sh", "autograder/autograder.py", "autograder/grading.py", "autograder/stages.tar.gz"}, here)
        # Classroom 50 writes autograde.yaml itself; a second one in the template breaks its grading.
        self.assertFalse([name for name in here if name.endswith((".yaml", ".yml"))])
        # Its runner fetches no more than 10 MB.
        self.assertLess(sum(path.stat().st_size for path in (folder / "autograder").iterdir()), 8_000_000)
        self.assertEqual(json.loads((folder / "runtime.json").read_text())["runs-on"], "ubuntu-latest")
        for page in ("README.md", "template/README.md"):
            self.assertNotRegex((folder / page).read_text(), r"@[A-Z0-9]+@")
        for name in ("row_lengths.cu", "warp_per_row.cu"):
            self.assertEqual((folder / "template" / name).read_text(), made(f"05_cuda_csr/{name}"))

    def test_its_packages_are_those_of_the_project_and_ranks_need_mpi(self):
        folder = self.directory / "lab"
        self.make("--classroom50", folder, "02/gather_rows.cpp", "05/row_lengths.cu")
        packages, known = (folder / "autograder/packages.txt").read_text(), (ROOT / "tools/install-deps.sh").read_text()
        self.assertIn("libopenmpi-dev openmpi-bin", packages)
        self.assertTrue((folder / "template/02_mpi/gather_rows.cpp").exists())
        for package in packages.split():
            self.assertRegex(known, rf"[| ]{re.escape(package)}[| ]", package)

    def test_a_full_disk_keeps_what_is_there(self):
        file, mine = self.write("lab.zip", "mine"), self.write("lab/autograder/exercises.json", "mine")
        self.script("bin/cp", f"""case ${{!#}} in
  {self.directory}/lab*) if [ "$1" = -r ]; then mkdir "${{!#}}"; else echo half > "${{!#}}"; fi; exit 1 ;;
esac
exec {shutil.which("cp")} "$@\"""")
        for words in (["--gradescope", file], ["--classroom50", mine.parent.parent]):
            done = self.call(ROOT / "tools/make-autograder.sh", "--force", *words, "05/row_lengths.cu", code=2)
            self.assertIn("cannot be written; choose another place", done.stderr)
            self.assertEqual((file.read_text(), mine.exists()), ("mine", True))
            self.assertEqual({p.name for p in self.directory.iterdir()}, {"lab.zip", "lab", "played", "bin"})

    def test_what_is_refused_and_what_is_there_is_kept(self):
        """Only --force replaces, and only a lab."""
        make = ROOT / "tools/make-autograder.sh"
        mine = [self.write(name, "mine") for name in ("lab/mine", "lab.zip", "lab/autograder/exercises.json", "home/thesis", "file")]
        (self.directory / "empty").mkdir()
        self.all_refused(*((expected, make, *words) for expected, *words in (
            ("say for what: --gradescope", "05"), ("name an exercise", "--gradescope", "a.zip"), ("--gradescope needs a name", "--gradescope"),
            ("--classroom50 needs a name", "--classroom50", "--force", "05"), ("no option --canvas", "--canvas", "05"),
            ("a.tar: Gradescope takes a zip", "--gradescope", "a.tar", "05"), ("no directory .*/nowhere", "--gradescope", "nowhere/a.zip", "05"),
            ("'09': no step with exercises of that name; there are 01_cpu_serial, ", "--gradescope", "a.zip", "09"),
            ("'05/none.cu': no exercise of that name; 05_cuda_csr has row_lengths.cu, ", "--gradescope", "a.zip", "05/none.cu"),
            ("file: is a file; name a directory", "--force", "--classroom50", "file", "05"),
            ("lab.zip: is there already", "--gradescope", "lab.zip", "05"), ("lab: is there already", "--classroom50", "lab", "05"),
            ("home: holds other things than a lab", "--force", "--classroom50", "home/", "05"),
            ("empty/a.zip: lies in .*empty", "--force", "--gradescope", "empty/a.zip", "--classroom50", "home/../empty", "05"))))
        self.assertEqual([path.read_text() for path in mine], ["mine"] * 5)
        file, zipped = mine[:2]
        self.make("--force", "--gradescope", zipped, "--classroom50", file.parent, "01/csr_spmv.cpp")
        self.assertEqual((zipfile.is_zipfile(zipped), file.exists()), (True, False))
        self.assertIn("--classroom50 DIR", self.call(make, "--help").stdout)


class Grading(Case):
    """What a hand-in's files are graded for, by what is in every lab."""

    def found(self):
        file, why = grading.handed_in(self.directory / "handin", CUDA)
        return str(file.relative_to(self.directory / "handin")) if file else why

    def test_where_a_file_lies(self):
        none = "there is no file row_lengths.cu in what was handed in; it keeps the name that it had"
        self.assertEqual(self.found(), none)
        for place, expected in ((".git/", none), ("a/b/", "a/b/row_lengths.cu"), ("a/c/", "there are 2 files row_lengths.cu; hand in one"),
                                ("", "row_lengths.cu"), ("05_cuda_csr/", "05_cuda_csr/row_lengths.cu")):
            self.write(f"handin/{place}row_lengths.cu", "")
            self.assertEqual(self.found(), expected)

    def test_links_are_nobodys_file(self):
        handin = self.write("handin/notes", "").parent
        (handin / "row_lengths.cu").symlink_to("/etc/passwd")
        (handin / "deeper").symlink_to("/")
        self.assertEqual(self.found(), "row_lengths.cu is a link; hand in the file itself")


def valid(result):
    """Faults of a result by schemas/result-v1.schema.json and runner.py of foundation50/classroom50; none: it is taken."""
    texts = ("classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release", "review", "datetime")
    out = [field for field in texts if not isinstance(result.get(field), str) or not result[field]]
    out += ["schema"] * (result.get("schema") != "classroom50/result/v1")
    out += ["datetime"] * (re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result.get("datetime", "")) is None)
    out += ["submission"] * (not result.get("submission", "").startswith("submit/"))
    out += sorted(set(result) - {*texts, "schema", "graded_at", "score", "max-score", "tests", "submitted_by"})
    for part in (result, *result["tests"]):
        score, of = part.get("score"), part.get("max-score")
        out += ["score"] * (type(score) is not int or type(of) is not int or not 0 <= score <= of)
    out += ["tests"] * any(not test.get("test-name") or type(test.get("passed")) is not bool for test in result["tests"])
    out += ["sum"] * (result["score"] != sum(test["score"] for test in result["tests"]) or result["max-score"] != sum(test["max-score"] for test in result["tests"]))
    return out


class Classroom50(Case):
    def setUp(self):
        super().setUp()
        self.lab = self.directory / "lab"
        self.make("--classroom50", self.lab, CUDA, HOST)
        self.lab /= "autograder"
        self.checkout = self.directory / "checkout"
        self.checkout.mkdir()
        # As if it had been built before.
        self.built = self.directory / "built"
        (self.built / "bin").mkdir(parents=True)
        shutil.copy(self.played, self.built / "bin/stages")
        self.write("built/built-from", hashlib.sha256((self.lab / "stages.tar.gz").read_bytes()).hexdigest() + "  -\n")
        script = self.lab / "autograder.py"
        script.write_text(script.read_text().replace('"/opt/stages-autograder"', repr(str(self.built))))

    def grade(self, code=0, **environment):
        return self.call(sys.executable, self.lab / "autograder.py", code=code, cwd=self.checkout, **IDENTITY | environment)

    def graded(self, **environment):
        self.grade(**environment)
        return json.loads((self.checkout / "result.json").read_text()), (self.checkout / "release-body.md").read_text()

    def test_a_result(self):
        result, body = self.graded()  # of nothing
        self.assertEqual((valid(result), result["score"], result["max-score"]), ([], 0, 200))
        self.assertIn("there is no file csr_spmv.cpp", body)
        self.write("checkout/row_lengths.cu", "points 100")
        self.write("checkout/csr_spmv.cpp", "points 25 because of ``` in it")
        result, body = self.graded()
        self.assertEqual(valid(result), [])
        self.assertEqual((result["score"], result["max-score"], result["owner"], result["review"]), (125, 200, "ada", IDENTITY["COMMIT_URL"]))
        self.assertEqual([test["test-name"] for test in result["tests"]], [CUDA, HOST])
        self.assertEqual(body.count("```"), 2)
        self.assertIn("of ''' in it", body)
        self.assertEqual(self.graded(REVIEW_URL="https://example.org/compare")[0]["review"], "https://example.org/compare")

    def test_trouble_is_no_result(self):
        self.write("checkout/row_lengths.cu", "trouble")
        self.assertIn("autograder: error: stages grade ended with exit code 2; what it said stands above", self.grade(code=2).stderr)
        self.assertFalse((self.checkout / "result.json").exists())

    def test_another_build_is_not_used(self):
        self.write("built/built-from", "0" * 64 + "  -\n")
        self.write("lab/autograder/setup.sh", 'mkdir -p "$1/bin" && cp "$PLAYED_PROGRAM" "$1/bin/stages" && echo built anew\n')
        self.write("checkout/row_lengths.cu", "points 100")
        self.assertIn("built anew", self.grade(PLAYED_PROGRAM=str(self.played), TMPDIR=str(self.directory)).stdout)


class Zip(Case):
    """The zip, unpacked as Gradescope does it, with the build that is there."""

    def setUp(self):
        super().setUp()
        if '"05_cuda_csr"' not in self.call(PROGRAM, "list", "--json").stdout:
            self.skipTest("this build has no CUDA steps")
        self.place = self.directory / "autograder"
        self.make("--gradescope", self.directory / "lab.zip", HOST, CUDA)
        with zipfile.ZipFile(self.directory / "lab.zip") as lab:
            lab.extractall(self.place / "source")
        shutil.copy(self.place / "source/run_autograder", self.place)
        (self.place / "run_autograder").chmod(0o755)
        (self.place / "stages-build").symlink_to(PROGRAM.parent.parent)
        # Whoever runs students' programs reads what lies here.
        self.directory.chmod(0o755)

    def graded(self, files):
        shutil.rmtree(self.place / "submission", ignore_errors=True)
        for name, text in files.items():
            self.write(f"autograder/submission/{name}", text)
        self.call(self.place / "run_autograder")
        result = json.loads((self.place / "results/results.json").read_text())
        self.assertEqual((result["score"], result.get("max-score")), (sum(test.get("score", 0) for test in result["tests"]), None))
        self.assertEqual((self.place / "source").stat().st_mode & 0o77, 0 if os.geteuid() == 0 else (self.place / "source").stat().st_mode & 0o77)
        return {test["name"]: test for test in result["tests"]}

    def thief(self):
        """The solution, which ends at once unless it can read or write what it must not."""
        files = ", ".join(json.dumps(str(self.place / name)) for name in ("source/stages.tar.gz", "source/grading.py", "submission/csr_spmv.cpp"))
        results = json.dumps(str(self.place / "results/results.json"))
        return f"""#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>
static const bool found = [] {{
  for (const char* const name : {{{files}}})
    if (open(name, O_RDONLY) >= 0) return true;
  if (open({results}, O_WRONLY | O_CREAT, 0666) >= 0) return true;
  _exit(3);
}}();
""" + made(CUDA, True)

    def test_a_solution_a_task_an_attack(self):
        # A solution that only multiplies where it finds the lab, or can write its own points.
        if os.geteuid() != 0 and shutil.which("bwrap") is None:
            self.skipTest("nothing keeps a program from this user's files here")
        tests = self.graded({"csr_spmv.cpp": made(HOST, True), "row_lengths.cu": self.thief()})
        self.assertEqual((tests[HOST]["score"], tests[CUDA]["score"]), (100, 0), tests)
        self.assertIn("ends the program, with exit code 3", json.dumps(tests))
        tests = self.graded({"csr_spmv.cpp": made(HOST)})
        self.assertLess(tests[HOST]["score"], 60)
        self.assertEqual((tests[CUDA]["score"], tests[CUDA]["status"]), (0, "failed"))

    def test_trouble_is_no_result(self):
        (self.place / "stages-build").unlink()
        self.write("autograder/submission/csr_spmv.cpp", "")
        done = self.call(self.place / "run_autograder", code=2)
        self.assertRegex(done.stderr, "^autograder: error: .*stages-build/bin/stages: cannot be run: No such file or directory; run setup.sh again\n$")
        self.assertFalse((self.place / "results/results.json").exists())


@unittest.skipUnless(importlib.util.find_spec("jinja2"), "jinja2 is missing")
class HandIns(Case):
    """A class at once."""

    def setUp(self):
        super().setUp()
        (self.directory / "class").mkdir()
        self.log = self.directory / "log"

    def words(self, *words):
        return [sys.executable, ROOT / "tools/handins.py", *words, self.directory / "class", "-o", self.directory / "out", "--program", self.played]

    def graded(self, *words, code=0):
        return self.call(*self.words(*(words or [CUDA])), code=code)

    def table(self):
        with (self.directory / "out.csv").open(newline="") as file:
            return {row["student"]: row for row in csv.DictReader(file)}

    def page(self):
        return (self.directory / "out.html").read_text()

    def test_a_class(self):
        for name, text in (("ada", "points 100"), ("bob", "points 50 because element (3, 0) is 1.5, expected 2"),
                           ("cyd", "points 50 because element (17, 0) is nan, expected -4e-3"), ("dan", "points 0 because it hangs")):
            self.write(f"class/{name}/somewhere/row_lengths.cu", text)
        (self.directory / "class/eve").mkdir()
        done = self.graded()
        table = self.table()
        self.assertEqual({name: row["points"] for name, row in table.items()}, {"ada": "100", "bob": "50", "cyd": "50", "dan": "0", "eve": "0"})
        self.assertIn("square matrices: element (3, 0)", table["bob"][f"{CUDA}: why"])
        self.assertIn("there is no file row_lengths.cu", table["eve"][f"{CUDA}: why"])
        self.assertRegex(done.stdout, r"^written: .*out.csv, .*out.html: 5 of 5 hand-ins")
        self.assertEqual(done.stderr.count("NOT CONFINED"), 1)
        # The same mistake, with other numbers, is one; the most frequent comes first.
        page = self.page()
        self.assertRegex(page, r'(?s)id="mistake-1".*?2 hand-ins.*?bob, cyd.*?id="mistake-2".*?1 hand-in,.*?dan')
        self.assertNotIn('id="mistake-3"', page)
        self.assertNotIn("A part", page)

    def test_several_exercises(self):
        self.write("class/ada/row_lengths.cu", "points 100")
        self.write("class/ada/csr_spmv.cpp", "points 20 because of a tail")
        self.graded(CUDA, "01_cpu_serial/exercises/csr_spmv.cpp")
        row = self.table()["ada"]
        self.assertEqual((row["points"], row["of"], row[CUDA], row[HOST]), ("120", "200", "100", "20"))

    def test_names_are_text(self):
        """Neither a spreadsheet nor a browser runs what somebody is called, or what his program says."""
        for name in ("=cmd()", "<b onclick=alert(1)>bold", "-2+3", "@SUM(A1)", "a,b\"c", "e\x1b[31m\x9b\u202e"):
            self.write(f"class/{name}/row_lengths.cu", "points 1 because =<img src=x onerror=alert(1)>\x9b")
        done = self.graded()
        with (self.directory / "out.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        self.assertFalse([cell for cell in cells if cell[:1] in ("=", "+", "-", "@")])
        self.assertTrue({"'=cmd()", "'-2+3", "'@SUM(A1)", "a,b\"c", r"e\x1b[31m\x9b\u202e"} <= set(cells), cells)
        self.assertNotRegex(done.stderr + "".join(cells), "[\x1b\x9b\u202e]")
        self.assertFalse({"img", "b"} & set(re.findall(r"<(\w+)", self.page())))
        for text in ("<b onclick=alert(1)>bold", "=<img src=x onerror=alert(1)>"):
            self.assertIn(html.escape(text), self.page())

    def test_a_name_that_is_no_text(self):
        self.write(os.fsdecode(b"class/\xff\xfe/row_lengths.cu"), "points 100")
        self.graded()
        self.assertEqual([row["points"] for row in self.table().values()], ["100"])

    def test_side_by_side(self):
        for k in range(4):
            self.write(f"class/s{k}.cu", "slow points 100")
        self.graded(CUDA, "--jobs", "2")
        now = itertools.accumulate(1 if line.startswith("begins") else -1 for line in self.log.read_text().splitlines())
        self.assertEqual(max(now), 2)

    def test_interrupted(self):
        """What was graded is kept, and marked as a part; nothing keeps running."""
        self.write("class/a.cu", "points 100")
        for k in range(3):
            self.write(f"class/s{k}.cu", "slow points 100")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number):
                for name in ("log", "out.csv", "out.html"):
                    self.write(name, "").unlink()
                self.write("seconds", "60")
                work = subprocess.Popen(list(map(str, self.words(CUDA, "--jobs", "2"))), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                wait_until(lambda: self.log.exists() and "A part: 1 of 4 hand-ins are graded" in self.page(), 60)
                work.send_signal(number)
                _, said = work.communicate(timeout=20)
                if number != signal.SIGKILL:
                    self.assertIn("interrupted: 3 hand-ins are not graded", said)
                    self.assertEqual(work.returncode, 130)
                for line in self.log.read_text().splitlines():
                    process = pathlib.Path("/proc", line.split()[1])
                    wait_until(lambda: not process.exists(), 20 if number == signal.SIGKILL else 0)  # nobody waits for them any more after SIGKILL
                table = self.table()
                self.assertEqual(table["a"]["points"], "100")
                self.assertEqual((table["s2"]["points"], table["s2"][f"{CUDA}: why"]), ("", "not graded yet"))
                self.assertRegex(self.page().split("<body>")[1].split("<nav")[0], "A part: 1 of 4 hand-ins are graded")

    def test_trouble_with_one(self):
        self.write("class/ada.cu", "trouble")
        self.write("class/bob.cu", "points 100")
        self.write("class/notes.txt", "")
        self.graded(code=1)
        table = self.table()
        self.assertEqual({name: row["points"] for name, row in table.items()}, {"ada": "", "bob": "100"})
        self.assertRegex(table["ada"][f"{CUDA}: why"], "could not be graded; .*the disk is full")
        (self.directory / "class" / "eve").mkdir()
        os.mkfifo(self.directory / "class" / "eve" / "row_lengths.cu")
        self.graded(code=1)
        self.assertRegex(self.table()["eve"][f"{CUDA}: why"], r"eve/row_lengths\.cu: cannot be read: it is no file$")

    def test_options_that_ask_for_no_grade(self):
        self.write("class/ada.cu", "points 100")
        done = self.call(*self.words(CUDA), "--", "--hint", 1, code=1)
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn("could not be graded; stages grade --hint 1: gives no grade; leave these options out", self.table()["ada"][f"{CUDA}: why"])

    def test_usage(self):
        script = [sys.executable, ROOT / "tools/handins.py"]
        rest = ["-o", "out", "--program", self.played]
        self.write("class/ada.cu", "")
        self.write("twice/ada.cu", "")
        self.write("twice/ada/row_lengths.cu", "")
        (self.directory / "empty").mkdir()
        self.all_refused(*((expected, *script, *words) for expected, *words in (
            ("'09': no step", "09", "class", *rest), ("'05/no.cu': no exercise of that name; 05_cuda_csr has", "05/no.cu", "class", *rest),
            ("nowhere: cannot be read: No such file", CUDA, "nowhere", *rest), ("empty: holds no hand-ins", CUDA, "empty", *rest),
            ("says not which exercise", "05", "class", *rest), ("ada is there twice", CUDA, "twice", *rest),
            ("--jobs 0: must be", CUDA, "class", *rest, "--jobs", "0"), ("-o class: is a directory", CUDA, "class", "-o", "class", "--program", self.played),
            ("no/program: is no program", CUDA, "class", "-o", "out", "--program", "no/program"),
            ("there is no directory", CUDA, "class", "-o", "no/out", "--program", self.played), ("required: -o", CUDA, "class"))))

    def test_what_compiles_and_what_does_not(self):
        """With the real program."""
        self.played = PROGRAM
        self.write("class/ada.cpp", made(HOST, True))
        self.write("class/bob.cpp", "int x = y;\n")
        self.graded(HOST)
        table = self.table()
        self.assertEqual((table["ada"]["points"], table["bob"]["points"]), ("100", "0"))
        self.assertRegex(table["bob"][f"{HOST}: why"], "^does not compile: csr_spmv.cpp:1:9: error: .*y.* was not declared")


if __name__ == "__main__":
    unittest.main()
