#!/usr/bin/env python3
"""The documents keep their word: every command in them runs, and what they name is there.

usage: documents_tests.py --root DIRECTORY --build DIRECTORY [unittest options]

Runs what stands in the sh fences of every page of the steps, of docs/ and of CONTRIBUTING.md, in a copy of the sources that uses the programs
of --build as they are, and says at the end what ran, what ran in its place, and what did not and why. pages.py tells how a document
says so. Needs nothing beyond Python's own library.
"""

import collections
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(1, __file__.rsplit("/", 2)[0])
from pages import Fault, Page, Project, check_instead, out_of_shape
from played import given

ROOT, BUILD = given("root", "build")
NOT_COPIED = {".git", ".venv", "build", "carry", "out", "results", "mine", "__pycache__"}
LIMIT = 120  # seconds that one command may take; one that takes a minute on two cores should not run here

MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2\n1 3 -1\n2 2 1.5\n3 1 4\n"
VECTOR = "%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n"
RUN = ["run", "--quick", "-m", "gen:uniform:n=100,per_row=5", "--stage", "01", "--json"]


def pages():
    paths = [ROOT / "README.md", *sorted(ROOT.glob("[0-9][0-9]_*/*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
    return [Page(str(path.relative_to(ROOT)), path.read_text()) for path in paths]


class Place:
    """A copy of the sources in which commands run, with the programs on the PATH and the files that the documents speak of."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory) / "sparse-stages"
        shutil.copytree(ROOT, self.root, ignore=lambda where, names: NOT_COPIED)
        (self.root / "results").symlink_to(ROOT / "results")
        (self.root / "build").mkdir()
        (self.root / "build/cpu").symlink_to(BUILD)
        programs = self.root / "build/cpu/bin"
        # The Python that runs this has what the report needs, if any has.
        python = pathlib.Path(directory) / "python"
        python.mkdir()
        (python / "python3").symlink_to(sys.executable)
        self.environment = {**os.environ, "PATH": os.pathsep.join([str(python), str(programs), os.environ["PATH"]])}
        for name, text in (("a.mtx", MATRIX), ("b.mtx", MATRIX), ("x.mtx", VECTOR)):
            (self.root / name).write_text(text)
        (self.root / "out").mkdir()
        for name in ("out/results.json", "before.json", "after.json"):
            subprocess.run([programs / "stages", *RUN, name], cwd=self.root, capture_output=True, timeout=LIMIT, check=True)

    def run(self, text, limit=LIMIT):
        """Runs a command as a shell does; its exit code, or none if it had to be ended, and what it said."""
        process = subprocess.Popen(["bash", "-c", text], cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            said, _ = process.communicate(timeout=limit)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


def check(project, page):
    """What is wrong with a page, without running anything."""
    faults = page.faults + page.not_built()
    for what, action, *arguments in (*((command, project.check, command) for command in page.commands),
                                     *((command, check_instead, command) for command in page.commands if command.instead),
                                     *((code, project.check_said, page, code) for code in page.said)):
        try:
            action(*arguments)
        except (Fault, SyntaxError) as fault:
            faults.append(f"{what}: {fault}")
    return faults


def parses(place, text):
    """Whether `stages run`, or the script that runs it on ranks, takes a command that is too long to run: it fails at a step that is not there, after all options."""
    code, said = place.run(f"{text.split(' #')[0]} --stage nowhere", 60)
    if code != 2 or not re.search("there is no step '(nowhere|vendor)'", said):
        raise Fault(f"is not taken: {said.strip()}")


def lacking(text):
    """What this machine or this build lacks to run a command, or none."""
    if re.search(r"--ranks\b|\bmpirun\b|tools/ranks", text) and not (BUILD / "bin/02_mpi").exists():
        return "this build has no MPI"
    if "tools/report.py" in text and not all(map(importlib.util.find_spec, ("matplotlib", "jinja2"))):
        return "matplotlib or jinja2 is missing"
    return None


def execute(place, command):
    """Runs a command as its mark says; how, for the list. Raises a Fault if it goes wrong."""
    text, how = command.instead or command.text, f"ran instead: {command.instead}" if command.instead else "ran"
    if text != command.text or command.reason:
        if re.match(r"(stages run|tools/ranks.sh [\d,]+)\b", command.text) and not lacking(command.text):
            parses(place, command.text)
    if reason := command.reason or lacking(text):
        return f"not run: {reason}"
    started = time.monotonic()
    got, said = place.run(text)
    if got != 0:
        what = f"took more than {LIMIT} s" if got is None else f"exit code {got}"
        raise Fault(f"{what}: {text}\n{said[-3000:]}")
    return f"{how} ({time.monotonic() - started:.1f} s)"


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.place = Place(directory.name)
        cls.project = Project(ROOT, BUILD / "bin")

    def test_what_they_name_is_there(self):
        for page in pages():
            with self.subTest(page=page.name):
                self.assertEqual(check(self.project, page), [])

    def test_every_step_and_page_has_commands(self):
        """And the README of a step is short."""
        commands = {page.name: len(page.commands) for page in pages()}
        for name in [name for name in commands if name.endswith("README.md")] + ["docs/course.md", "docs/exercises.md", "docs/checking.md"]:
            self.assertGreater(commands[name], 0, f"{name} lost its commands")
        for path in ROOT.glob("[0-9][0-9]_*/README.md"):
            self.assertEqual(out_of_shape(path.read_text()), [], path)

    def test_links_lead_somewhere(self):
        for page in (ROOT / page.name for page in pages()):
            for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
                linked = (page.parent / target).resolve() if target else page
                self.assertTrue(linked.exists(), f"{page}: {target}")
                if anchor:
                    heads = re.findall(r"(?m)^#+ (.+)$", linked.read_text())
                    self.assertIn(anchor, [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads], page)

    def test_commands(self):
        counts = collections.Counter()
        for command in (command for page in pages() for command in page.commands):
            with self.subTest(command=str(command)):
                try:
                    how = execute(self.place, command)
                except Fault as fault:
                    self.fail(str(fault))
                print(f"{command}\n    {how}")
                counts[re.match("ran instead|ran|not run", how)[0]] += 1
        print(*(f"{count} {how}" for how, count in counts.items()), sep=", ")

    # Pages with one fault each, which must be found: without running anything, and by running what they say.
    STATIC = {
        "an option": ("```sh\nstages run --quik -m data:d2\n```", "stages run has no option --quik"),
        "an option of a stage's program": ("```sh\n01_cpu_serial run --quik\n```", "01_cpu_serial run has no option --quik"),
        "a command of stages": ("```sh\nstages runn -m data:d2\n```", "stages has no command runn"),
        "an option of a script": ("```sh\ntools/report.py out/results.json --outt x.html\n```", "tools/report.py has no option --outt"),
        "an option of a shell script": ("```sh\ntools/verify-gpu.sh --skip-sanitizers\n```", "has no option --skip-sanitizers"),
        "an option of run.sh": ("```sh\n./run.sh --nothing\n```", "run.sh has no option --nothing"),
        "a script": ("```sh\ntools/measure.sh\n```", "tools/measure.sh is not there"),
        "a file": ("```sh\ntools/report.py results/no/such.json\n```", "results/no/such.json is not there"),
        "a program": ("```sh\nsparse run\n```", "'sparse' is no program"),
        "a program that is not built": ("```sh\n07_spmm run\n```", "07_spmm: neither ./run.sh nor a command of this page builds it"),
        "a build of everything": ("After that `tools/build.sh cpu`.", "name what it is to build"),
        "a matrix": ("```sh\nstages info data:femm\n```", "there is no data:femm"),
        "a generator": ("```sh\nstages info gen:nothing:n=1\n```", "there is no generator nothing"),
        "a parameter": ("```sh\nstages info gen:fem:ny=3,mx=2\n```", "gen:fem has no parameter mx"),
        "an entry": ("```sh\nstages multiply --with vendor/egen_spmv a.mtx x.mtx\n```", "there is no entry vendor/egen_spmv"),
        "a parameter of an entry": ("```sh\nstages run --set 07_spmm/split_rows:chunks=3\n```", "07_spmm/split_rows:chunks=3 is not there"),
        "a filter": ("```sh\nstages run --filter '01_|99_'\n```", "no entry has '99_'"),
        "a preset": ("```sh\nctest --preset cpus\n```", "there is no preset cpus"),
        "a test": ("```sh\nctest --preset cpu -R bettery\n```", "no test has 'bettery'"),
        "a quote": ("```sh\nstages run --filter '01\n```", "No closing quotation"),
        "a fence without a language": ("```\nstages list\n```", "a fence of the language ''"),
        "a fence of a language that nobody knows": ("```shell\nstages list\n```", "a fence of the language 'shell'"),
        "a fence without an end": ("```sh\nstages list", "never ends"),
        "a command outside a fence": ("text\n\n    stages run -m data:d2\n", "a command outside an sh fence"),
        "one with a prompt": ("text\n\n    $ stages run -m data:d2\n", "a command outside an sh fence"),
        "a mark": ("<!-- not ran: because -->\n```sh\nstages list\n```", "nobody knows the mark 'not ran: because'"),
        "a mark without a reason": ("<!-- not run: -->\n```sh\nstages list\n```", "'not run' must say more"),
        "too few marks": ("<!--\nas written\n-->\n```sh\nstages list\nstages list\n```", "1 marks for 2 commands"),
        "another program in its place": ("<!-- run instead: stages list -->\n```sh\nstages run\n```", "cannot be tried by"),
        "an option left out in its place": ("<!-- run instead: stages run -m data:d2 -->\n```sh\nstages run -m data:d1 --cache cold\n```", "does not use --cache"),
        "a command in the text": ("Then `stages grade --batery full` does.", "stages grade has no option --batery"),
        "a command over two lines": ("Then `stages grade\n--batery full` does.", "stages grade has no option --batery"),
        "a path in the text": ("See `common/harness/chek.hpp`.", "common/harness/chek.hpp is not there"),
        "an entry in the text": ("See `01_cpu_serial/gustavson`.", "01_cpu_serial/gustavson is not there"),
        "a spec in the text": ("Of `gen:twin:reddit,shrik=16`.", "gen:twin has no parameter shrik"),
        "a name in the text": ("It is caught by `D1_d_lost_rows`.", "nothing in the sources is called D1_d_lost_rows"),
        "a file in the text": ("See `gustavson_dens.cpp`.", "there is no file gustavson_dens.cpp"),
    }
    RUN = {
        "a command that fails": ("```sh\nstages info a.mt\n```", "exit code 2"),
        "a value": ("<!-- not run: too long -->\n```sh\nstages run -m data:d1 --op spmw\n```", "is not taken"),
        "what runs in its place": ("<!-- run instead: stages info nobody.mtx -->\n```sh\nstages info data:d1\n```", "exit code 2"),
    }

    def test_a_readme_out_of_shape(self):
        wide = "x" * 121
        made = f"<!-- table results/a.json 01_ -->\n{wide}\n<!-- end table -->\n"
        self.assertEqual(out_of_shape(f"short\n| {wide} |\n{made}"), [])
        self.assertEqual(out_of_shape(f"{made}{wide}\n"), ["line 4: 121 characters, at most 120"])
        self.assertEqual(out_of_shape(f"<!-- value a.json b c -->1<!-- /value --> {wide}"), ["line 1: 163 characters, at most 120"])
        self.assertIn("151 lines, at most 150", out_of_shape("x\n" * 151)[0])

    def test_faults_that_are_seen(self):
        for name, (text, expected) in self.STATIC.items():
            with self.subTest(fault=name):
                self.assertIn(expected, "\n".join(check(self.project, Page("README.md", text))))
        for script, text, expected in (("tools/none.sh", "if true\n", "syntax error"), ("tools/none.py", "def (:\n", "invalid syntax")):
            path = self.place.root / script
            path.write_text(text)
            path.chmod(0o755)
            self.assertIn(expected, "\n".join(check(Project(self.place.root, BUILD / "bin"), Page("README.md", f"```sh\n{script}\n```"))))

    def test_faults_that_show_in_a_run(self):
        for name, (text, expected) in self.RUN.items():
            with self.subTest(fault=name), self.assertRaisesRegex(Fault, expected):
                for command in Page("README.md", text).commands:
                    execute(self.place, command)
        code, _ = self.place.run("sleep 60 & sleep 60", 0.5)
        self.assertIsNone(code)

    def test_what_is_right_has_no_faults(self):
        text = ("Run `stages run ... --json FILE`, read `tests/NAME_tests.cpp`, `tools/build.sh cpu [TARGET ...]`.\n\n"
                "    a drawing   of things\n\n```text\nstages anything\n```\n\n"
                "```sh\n# a remark\nSTAGES_WORKERS=1 stages info \\\n  a.mtx   # a remark\n```\n"
                "<!--\nas written\nnot run: too long\nrun instead: stages info a.mtx --json\n-->\n"
                "```sh\nstages list\nstages run -m data:d1 --op spmv\nstages info data:d1 --json\n```\n")
        page = Page("README.md", text)
        self.assertEqual(check(self.project, page), [])
        said = [execute(self.place, command) for command in page.commands]
        for done, expected in zip(said, ("ran (", "ran (", "not run: too long", "ran instead: stages info a.mtx --json"), strict=True):
            self.assertTrue(done.startswith(expected), said)


if __name__ == "__main__":
    unittest.main()
