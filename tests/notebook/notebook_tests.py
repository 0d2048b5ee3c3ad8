#!/usr/bin/env python3
"""The notebooks as a student runs them: their cells in order, with plain Python and a build that is there.

usage: notebook_tests.py --build DIR [unittest options]
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import traceback
import unittest
from unittest import mock

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played, given

(BUILD,) = given("build")  # where bin/stages is, and the grader's build
LAB = ROOT / "notebooks/first_lab.ipynb"


def faults(notebook):
    """What is wrong with a notebook as it lies in the repository."""
    if notebook.get("nbformat") != 4 or not isinstance(notebook.get("nbformat_minor"), int) or not isinstance(notebook.get("metadata"), dict):
        return ["no notebook of nbformat 4"]
    found = []
    for number, cell in enumerate(notebook["cells"]):
        is_code = cell["cell_type"] == "code"
        for wrong, what in ((cell["cell_type"] not in ("markdown", "code") or not isinstance(cell.get("metadata"), dict), "is neither text nor code"),
                            (not all(isinstance(line, str) for line in cell["source"]), "its source is no list of lines"),
                            (is_code and (cell.get("outputs") != [] or cell.get("execution_count", 0) is not None),
                             "has outputs; clear them before you commit")):
            found += [f"cell {number}: {what}"] if wrong else []
    names = [cell.get("id") for cell in notebook["cells"]]
    if None in names or len(set(names)) != len(names):
        found.append("a cell has no id of its own")
    return found


def execute(cells, names):
    """Runs cells in order in one namespace; what they printed. A cell that raises is a RuntimeError, which names it."""
    said = io.StringIO()
    for number, text in cells:
        try:
            with contextlib.redirect_stdout(said):
                exec(compile(text, f"cell {number}", "exec"), names)  # what a notebook is for
        except Exception:
            raise RuntimeError(f"cell {number} fails:\n{traceback.format_exc(limit=-3)}\nit said:\n{said.getvalue()[-3000:]}") from None
    return said.getvalue()


class Lab(Played):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(LAB.parent)
        change = mock.patch.dict(os.environ, {"STAGES_NOTEBOOK_BUILD": str(BUILD), "STAGES_OUT": str(self.directory), "MPLBACKEND": "Agg"})
        change.start()
        self.addCleanup(change.stop)
        self.notebook = json.loads(LAB.read_text())
        # Those with code, with their numbers among all.
        self.cells = [(number, "".join(cell["source"])) for number, cell in enumerate(self.notebook["cells"]) if cell["cell_type"] == "code"]

    def changed(self, number, before, after):
        """The cells up to the one of this number among those with code, which has other words in it."""
        at, text = self.cells[number]
        self.assertIn(before, text)
        return [*self.cells[:number], (at, text.replace(before, after))]

    def test_its_file(self):
        self.assertEqual(faults(self.notebook), [])
        for words, change in (("has outputs", {"outputs": [{"output_type": "stream"}]}), ("has outputs", {"execution_count": 3}), ("no id", {"id": "cell-00"}),
                              ("no list of lines", {"cell_type": "markdown", "source": [1]}), ("neither text nor code", {"cell_type": "raw"})):
            with self.subTest(change=change):
                cells = self.notebook["cells"]
                self.assertIn(words, "\n".join(faults({**self.notebook, "cells": [cells[0], {**cells[1], **change}]})))
        self.assertIn("no notebook", faults({**self.notebook, "nbformat": 3})[0])

    def test_its_cells_run(self):
        with self.assertRaisesRegex(RuntimeError, "cell 3 fails(.|\n)*exit code 2"):
            execute(self.changed(1, '"gen:fixed:n=1024,zeros=0.8"', '"nowhere.mtx"'), {})
        names = {}
        printed = execute(self.cells, names)
        for words in ("GPU: ", "2 good, 0 wrong", "H100, our record: the factor is ", "lost  "):
            self.assertIn(words, printed)
        self.assertTrue((self.directory / "first_lab_1000.json").exists())
        self.assertLess(names["points"], 100, "a wrong subscript is right?")
        # What the student does next.
        number = next(k for k, (_, text) in enumerate(self.cells) if "my_subscript =" in text)
        said = execute(self.changed(number, 'my_subscript = "i * a.ld + j"', 'my_subscript = "j * a.ld + i"')[-1:], names)
        # On a GPU the points for speed are measured, and may lack.
        self.assertGreaterEqual(names["points"], 80 if names["has_gpu"] else 100, said)

    def test_it_gets_the_project(self):
        os.chdir(self.directory)
        with self.assertRaisesRegex(RuntimeError, "put its address into URL"):
            execute(self.cells[:2], {})
        for name in ("03_cuda_naive/README.md", "tools/build.sh"):
            self.write(f"theirs/{name}", "\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
            subprocess.run(["git", "-C", "theirs", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, timeout=60)
        names, again = {}, {}
        (first, text), second = self.cells[:2]
        execute([(first, text.replace('URL = ""', f'URL = "file://{self.directory}/theirs"')), second], names)
        self.assertEqual(names["ROOT"].resolve(), (self.directory / "sparse-stages").resolve())
        execute(self.cells[:2], again)  # without an address now: it is there
        self.assertEqual(again["ROOT"], names["ROOT"])


if __name__ == "__main__":
    if not importlib.util.find_spec("matplotlib"):
        print("skipped: matplotlib is missing (Debian: python3-matplotlib)")
        sys.exit(77)
    unittest.main()
