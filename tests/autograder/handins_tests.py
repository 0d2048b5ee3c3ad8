#!/usr/bin/env python3
"""A class at once, by tools/handins.py, mostly with a program that plays `stages grade`.

usage: handins_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import csv
import html
import importlib.util
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from hand_in import CUDA, HOST, PROGRAM, ROOT, Case, made
from played import wait_until


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
