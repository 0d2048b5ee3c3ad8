#!/usr/bin/env python3
"""Labs for courses: what tools/make-autograder.sh puts into them, and what grades a hand-in there.

Most of it with a program that plays `stages grade`; the zip with the real one, as the build has it.

usage: autograder_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import unittest
import zipfile

from hand_in import CUDA, HOST, PROGRAM, ROOT, Case, made
from autograder import grading

IDENTITY = {"CLASSROOM": "hpc", "ASSIGNMENT": "lab-5", "ASSIGNMENT_TYPE": "individual", "OWNER": "ada", "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
            "COMMIT_URL": "https://example.org/commit/1", "RELEASE_URL": "https://example.org/release/1"}


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
        self.assertLessEqual({"common/judge/student/main.cpp", "data/builtin.tsv"}, set(files))
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


if __name__ == "__main__":
    unittest.main()
