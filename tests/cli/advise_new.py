#!/usr/bin/env python3
"""stages advise and stages new."""

import json
import resource
import signal
import sys

from programs import ROOT, SMALL, Case, main


class Advise(Case):
    """stages advise, by data/advice.tsv, which tools/advice.py writes."""

    def advice(self, *words):
        return json.loads(self.good("advise", "-m", SMALL, *words, "--json").stdout)

    def test_says_an_entry_and_what_it_costs(self):
        text = self.good("advise", "-m", SMALL, "--op", "spmm", "--n-cols", "128").stdout
        self.assertRegex(text, r"NVIDIA H100 in f32")
        self.assertRegex(text, r"(?m)^spmm with N = 128: 07_spmm/\w+$")
        self.assertRegex(text, r"(?m)^  worst +\S+, N = \d+: [\d.]+ %, the best is 07_spmm/")
        self.assertNotIn("spgemm", text)

    def test_holds_95_percent_of_the_best_entrys_speed(self):
        found = self.advice()
        self.assertEqual([one["operation"] for one in found["advice"]], ["spmv", "spmm", "spgemm"])
        for one in found["advice"]:
            with self.subTest(operation=one["operation"]):
                self.assertGreaterEqual(one["share"], 0.95)
                self.assertGreaterEqual(one["share_left_out"], 0.95)
                self.assertLessEqual(one["worst"]["share"], one["nearest"]["share"])

    def test_the_nearest_case_is_the_matrix_itself(self):
        found = json.loads(self.good("advise", "-m", "gen:twin:arxiv", "--op", "spmm", "--n-cols", "128", "--json").stdout)
        self.assertIn(found["advice"][0]["nearest"]["case"], ["gen:twin:arxiv, N = 128", "gen:twin:arxiv,runs=yes, N = 128"])

    def test_bad_input(self):
        self.refused("no matrix given; name one with -m", "advise")
        self.refused("--op", "advise", "-m", SMALL, "--op", "spvv")
        self.refused("none.mtx", "advise", "-m", "none.mtx")

    def test_the_rule_and_its_shares(self):
        """On made-up times: the entry that all have, and what is advised where a matrix is left out."""
        sys.path.insert(0, str(ROOT / "tools"))
        try:
            advice = __import__("advice")
        finally:
            sys.path.pop(0)
        seconds = {("spmv", "-", "a"): {"x": 1.0, "y": 2.0}, ("spmv", "-", "b"): {"x": 1.0, "y": 4.0},
                   ("spmv", "-", "c"): {"x": 3.0, "y": 1.0, "only_here": 0.5}}
        shares = advice.shares_of(seconds)
        self.assertEqual(shares["spmv", "-", "c"], {"x": 0.5 / 3, "y": 0.5, "only_here": 1.0})
        self.assertEqual(advice.chosen(list(shares.values())), "x")
        self.assertEqual(advice.chosen([shares["spmv", "-", "c"]]), "only_here")


class New(Case):
    """stages new; that what it makes compiles, fails and can be filled in is tested in tests/new_step."""

    def setUp(self):
        super().setUp()
        (self.directory / "cmake").mkdir()
        (self.directory / "cmake" / "StagesSteps.cmake").write_text("")
        (self.directory / "05_other").mkdir()

    def names(self):
        return sorted(path.name for path in self.directory.iterdir())

    def test_files_are_the_templates_with_the_names(self):
        sys.path.insert(0, str(ROOT / "tests" / "new_step"))
        from make_steps import named

        number = 9
        for op in ("spmv", "spmm", "spgemm"):
            for kind, words in (("cu", []), ("cpp", ["--host"])):
                number += 1
                step = f"{number}_my_own"
                said = self.good("new", step, "--op", op, *words, cwd=self.directory).stdout
                self.assertIn(f"{step}/my_own.{kind}", said)
                template = ROOT / "common" / "suite" / "templates" / f"{op}.{kind}.in"
                made = (self.directory / step / f"my_own.{kind}").read_text()
                self.assertEqual(made, named(template.read_text(), step, "my_own"))
                self.assertIn("class MyOwnEntry final", made)
                readme = (self.directory / step / "README.md").read_text()
                self.assertIn(f"--stage 01,{number},vendor", readme)
                self.assertNotRegex(made + readme, r"@[A-Z]+@")

    def test_entry_and_root(self):
        self.good("new", "11_two_words", "--entry", "first", "--root", self.directory)
        self.assertIn('"11_two_words/first"', (self.directory / "11_two_words" / "first.cu").read_text())

    def test_refusals_leave_nothing(self):
        before = self.names()
        for step in ("mine", "9_mine", "09_", "09_Mine", "09_a/b", "09_a b", "09_é", "", "09-mine"):
            self.refused("is no name of a step", "new", step, cwd=self.directory)
        self.refused("05_other is there already", "new", "05_mine", cwd=self.directory)
        self.refused("is no name of an entry", "new", "09_mine", "--entry", "../up", cwd=self.directory)
        self.refused("not the directory of sparse-stages' sources", "new", "09_mine", "--root", "cmake", cwd=self.directory)
        self.refused("--op", "new", "09_mine", "--op", "gemm", cwd=self.directory)
        self.assertEqual(self.names(), before)

    def test_a_full_disk_leaves_nothing(self):
        before = self.names()

        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        self.refused("cannot be written", "new", "09_mine", cwd=self.directory, limits=no_room)
        self.assertEqual(self.names(), before)


if __name__ == "__main__":
    main()
