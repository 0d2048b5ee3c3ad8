#!/usr/bin/env python3
"""The notebooks as a student runs them: their cells in order, with plain Python and a build that is there.

usage: notebook_tests.py --build DIR [unittest options]
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = None
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LAB = ROOT / "notebooks/first_lab.ipynb"


class Fault(Exception):
    pass


def faults(notebook):
    """What is wrong with a notebook as it lies in the repository."""
    if notebook.get("nbformat") != 4 or not isinstance(notebook.get("nbformat_minor"), int) or not isinstance(notebook.get("metadata"), dict):
        return ["no notebook of nbformat 4"]
    found = []
    for number, cell in enumerate(notebook["cells"]):
        where = f"cell {number}"
        if cell["cell_type"] not in ("markdown", "code") or not isinstance(cell.get("metadata"), dict):
            found.append(f"{where}: is neither text nor code")
        if not all(isinstance(line, str) for line in cell["source"]):
            found.append(f"{where}: its source is no list of lines")
        if cell["cell_type"] == "code" and (cell.get("outputs") != [] or cell.get("execution_count", 0) is not None):
            found.append(f"{where}: has outputs; clear them before you commit")
        if cell["cell_type"] == "code":
            try:
                compile(source_of(cell), where, "exec")
            except SyntaxError as error:
                found.append(f"{where}: is no plain Python (magics are not run here): {error}")
    names = [cell.get("id") for cell in notebook["cells"]]
    if None in names or len(set(names)) != len(names):
        found.append("a cell has no id of its own")
    return found


def source_of(cell):
    return "".join(cell["source"])


def code(notebook):
    """The code cells, with their numbers among all cells."""
    return [(number, source_of(cell)) for number, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"]


def execute(cells, names):
    """Runs cells in order in one namespace; what each printed. A cell that raises is a Fault."""
    printed = []
    for number, text in cells:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(compile(text, f"cell {number}", "exec"), names)  # what a notebook is for
        except Exception:
            raise Fault(f"cell {number} fails:\n{traceback.format_exc(limit=-3)}\nit said:\n{said.getvalue()[-3000:]}") from None
        printed.append(said.getvalue())
    return printed


class As(unittest.TestCase):
    """Runs in a directory of its own, with an environment."""

    def go(self, directory, **environment):
        before = pathlib.Path.cwd()
        os.chdir(directory)
        self.addCleanup(os.chdir, before)
        change = mock.patch.dict(os.environ, environment)
        change.start()
        self.addCleanup(change.stop)

    def place(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return pathlib.Path(directory.name)


class Lab(As):
    def test_files_are_clean(self):
        self.assertTrue(NOTEBOOKS)
        for path in NOTEBOOKS:
            with self.subTest(notebook=path.name):
                self.assertEqual(faults(json.loads(path.read_text())), [])

    def test_its_cells_run(self):
        out = self.place()
        self.go(LAB.parent, STAGES_NOTEBOOK_BUILD=str(BUILD), STAGES_OUT=str(out), MPLBACKEND="Agg")
        cells = code(json.loads(LAB.read_text()))
        names = {}
        printed = "".join(execute(cells, names))
        for words in ("GPU: ", "CMake: ", "2 good, 0 wrong", "H100, our record: the factor is ", "lost  "):
            self.assertIn(words, printed)
        self.assertTrue((out / "first_lab_1000.json").exists())
        self.assertLess(names["points"], 100, "a wrong subscript is right?")
        # What the student does next.
        ((number, last),) = [(number, text) for number, text in cells if "my_subscript =" in text]
        wrong, right = 'my_subscript = "i * a.ld + j"', 'my_subscript = "j * a.ld + i"'
        self.assertIn(wrong, last)
        said = execute([(number, last.replace(wrong, right))], names)[0]
        # On a GPU the points for speed are measured, and may lack.
        self.assertGreaterEqual(names["points"], 80 if names["has_gpu"] else 100, said)

    def test_it_gets_the_project(self):
        cells = code(json.loads(LAB.read_text()))[:2]
        theirs, ours = self.place(), self.place()
        self.go(ours)
        with self.assertRaisesRegex(Fault, "put its address into URL"):
            execute(cells, {})
        for name in ("03_cuda_naive/README.md", "tools/build.sh"):
            (theirs / name).parent.mkdir(exist_ok=True)
            (theirs / name).write_text("\n")
        git = ["git", "-C", str(theirs), "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
            subprocess.run([*git, *words], check=True, timeout=60)
        names = {}
        execute([(number, text.replace('URL = ""', f'URL = "file://{theirs}"')) for number, text in cells], names)
        self.assertEqual(names["ROOT"].resolve(), (ours / "sparse-stages").resolve())
        again = {}
        execute(cells, again)  # without an address now: it is there
        self.assertEqual(again["ROOT"], names["ROOT"])


class Planted(As):
    """Faults that must be found."""

    @staticmethod
    def notebook(*texts):
        return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
            {"cell_type": "code", "id": f"c{k}", "metadata": {}, "source": [text], "outputs": [], "execution_count": None} for k, text in enumerate(texts)]}

    def test_faults_of_files(self):
        self.assertEqual(faults(self.notebook("x = 1")), [])
        self.assertIn("no notebook", faults({**self.notebook("x = 1"), "nbformat": 3})[0])
        self.assertIn("no plain Python", faults(self.notebook("!ls"))[0])
        for change in ({"outputs": [{"output_type": "stream"}]}, {"execution_count": 3}):
            with self.subTest(change=change):
                notebook = self.notebook("x = 1")
                notebook["cells"][0].update(change)
                self.assertIn("has outputs", faults(notebook)[0])
        twice = self.notebook("x = 1", "y = x")
        twice["cells"][1]["id"] = "c0"
        self.assertIn("no id", faults(twice)[0])

    def test_a_cell_that_raises(self):
        names = {}
        self.assertEqual(execute(code(self.notebook("x = 1", "print(x)")), names), ["", "1\n"])
        with self.assertRaisesRegex(Fault, "cell 1 fails(.|\n)*ZeroDivisionError"):
            execute(code(self.notebook("x = 0", "1 / x", "x = 2")), names)
        self.assertEqual(names["x"], 0)

    def test_a_program_that_fails(self):
        self.go(LAB.parent, STAGES_NOTEBOOK_BUILD=str(BUILD), STAGES_OUT=str(self.place()))
        cells = code(json.loads(LAB.read_text()))[:3]
        number, text = cells[2]
        with self.assertRaisesRegex(Fault, "exit code 2"):
            execute([*cells[:2], (number, text.replace('"gen:fixed:n=1024,zeros=0.8"', '"nowhere.mtx"'))], {})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where bin/stages is, and the grader's build")
    options, rest = parser.parse_known_args()
    BUILD = options.build.resolve()
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("skipped: matplotlib is missing (Debian: python3-matplotlib)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
