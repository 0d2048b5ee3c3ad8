#!/usr/bin/env python3
"""tests/kept/kept.py: what makes a pass run again, and that the battery's passes name all sources that they are built from.

usage: kept_tests.py --build DIR --program PROGRAM --sources PATH...      (the sources of all passes together)
"""

import argparse
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played

KEPT = [sys.executable, ROOT / "tests/kept/kept.py"]


class Kept(Played):
    def setUp(self):
        super().setUp()
        for name in ("common/matrix/types.hpp", "05_step/kernel.cu", "05_step/exercises/mine.cu", "05_step/README.md", "06_step/kernel.cu"):
            self.write(name, "int x;\n")
        self.program = self.place / "program"
        self.script("program", "date >> ran; echo a kernel > noted; exit 0")

    def write(self, name, text):
        super().write(name, text)
        time.sleep(0.01)

    def runs(self, *words, facts="g++ 12", code=0, **environment):
        """Whether the program ran."""
        before = self.times()
        done = self.call(*KEPT, "a_pass", "--root", self.place, "--facts", facts, "--notes", "noted", "--sources", "common", "05_step", "--", self.program,
                         *words, code=code, **{"STAGES_KEPT": "kept", **environment})
        if self.times() == before:
            self.assertRegex(done.stdout, "^kept: a_pass passed with the same sources on 20")
        return self.times() > before

    def times(self):
        return self.read("ran").count("\n")

    def edit(self, name, text):
        """And builds anew."""
        self.write(name, text)
        os.utime(self.program)

    def test_the_same_sources_run_once(self):
        """Also where what changed is nothing that it depends on."""
        self.assertTrue(self.runs())
        (self.place / "noted").unlink()
        self.assertFalse(self.runs())
        self.assertEqual(self.read("noted"), "a kernel\n", "what the pass wrote is put back")
        for name in ("05_step/exercises/mine.cu", "05_step/README.md", "06_step/kernel.cu"):
            self.edit(name, "int y;\n")
        self.assertFalse(self.runs(STAGES_BUILD="elsewhere"))

    def test_what_runs_again(self):
        self.runs()
        for name in ("common/matrix/types.hpp", "common/matrix/new.hpp", "05_step/kernel.cu"):
            self.edit(name, "int x;  // a number\n")
            self.assertTrue(self.runs(), name)
        more = {}
        for name, value in (("STAGES_SCHEDULE", "reverse"), ("facts", "g++ 13"), ("STAGES_KEPT", "none")):
            more[name] = value
            self.assertTrue(self.runs(**more), name)
        del more["STAGES_KEPT"]
        self.assertTrue(self.runs("--gtest_filter=x", **more))
        self.assertFalse(self.runs("--gtest_filter=x", **more))

    def test_a_failure_is_not_kept(self):
        """Nor an older pass beside it."""
        self.runs()
        self.edit("05_step/kernel.cu", "wrong\n")
        self.script("program", "date >> ran; exit 1")
        self.assertTrue(self.runs(code=1))
        self.assertTrue(self.runs(code=1))
        self.edit("05_step/kernel.cu", "int x;\n")
        self.assertTrue(self.runs(code=1))

    def test_a_program_that_was_not_built_anew_is_not_kept(self):
        self.write("common/matrix/types.hpp", "int z;\n")
        self.assertTrue(self.runs())
        self.assertTrue(self.runs())

    def test_sources_that_are_not_there_are_an_error(self):
        self.assertRegex(self.call(*KEPT, "x", "--root", self.place, "--sources", "commn", "--", "true", code=1, STAGES_KEPT=".").stderr, r"^.*commn.*\n\Z")

    def test_passes_name_all_sources_of_the_program(self):
        """As ninja knows them: the sources that the program is linked from, and what the compiler read for each."""
        ninja = lambda *words: subprocess.run(["ninja", "-C", WORDS.build, "-t", *words], check=True, capture_output=True, text=True).stdout
        inputs = ninja("inputs", os.path.relpath(WORDS.program, WORDS.build)).split()
        objects = [word for word in inputs if word.endswith(".o")]
        self.assertGreater(len(objects), 100)
        read = {line.strip() for line in ninja("deps", *objects).splitlines() if line.startswith("    ")} | set(inputs)
        files = {os.path.normpath(os.path.join(WORDS.build, word)) for word in read if re.search(r"\.(cpp|hpp|cu|h|c)$", word)}
        named = tuple(f"{ROOT / path}{end}" for path in WORDS.sources for end in ("", os.sep))
        missing = [os.path.relpath(file, ROOT) for file in files if file.startswith(f"{ROOT}{os.sep}")
                   and not file.startswith(os.path.realpath(WORDS.build) + os.sep)
                   and file not in named and not file.startswith(tuple(place for place in named if place.endswith(os.sep)))]
        self.assertEqual(sorted(missing), [], "name them in kept_sources of tests/CMakeLists.txt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sources", nargs="+", required=True)
    WORDS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
