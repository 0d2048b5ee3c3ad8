#!/usr/bin/env python3
"""tools/fit_rules.py on records that were made up, and tools/fit-rules.sh with a program that plays."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if not importlib.util.find_spec("numpy"):
    sys.exit(77)
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]
import fit_rules  # noqa: E402
import record  # noqa: E402

CONTEXT = {"gpu": "A GPU", "date": "2026-11-30T00:00:00Z", "source_digest": "0123456789abcdef", "gpu_sms": "132", "gpu_l2_bytes": "6e7",
           "gpu_copy_bandwidth_bytes_per_second": "4e12"}


def row(matrix, entry, seconds, features=None):
    metrics = {f"feature_{name}": {"value": value, "unit": ""} for name, value in (features or {}).items()}
    return {"entry": entry, "status": "good", "metrics": metrics, "problem": {"matrix": matrix, "operation": "spmv", "type": "f32", "options": ""},
            "seconds": {"run": {"median": seconds}}}


class Fits(unittest.TestCase):
    def setUp(self):
        """Two families of long rows, two of short ones and one of few: one form is right for the first, another one for all else."""
        self.addCleanup(setattr, fit_rules, "lists", fit_rules.lists)
        self.addCleanup(setattr, record, "read", record.read)
        families = {"long": (30, 1000), "longer": (40, 3000), "short": (2, 1000), "shorter": (1, 5000), "few": (90, 3), "fewer": (80, 2)}
        known, results = {}, []
        for family, (mean, rows) in families.items():
            for k, name in enumerate(("fitted", "fitted", "reported")):
                matrix = f"gen:{family}:{k}"
                known[matrix] = (family, name)
                times = (1.0, 2.0) if family in ("long", "longer") else (3.0, 1.0)
                results += [row(matrix, "05_cuda_csr/other", times[0]), row(matrix, "05_cuda_csr/balanced", times[1]),
                            row(matrix, "vendor/library", 1.5), row(matrix, "05_cuda_csr/adaptive", 9, {"mean": mean + k, "rows": rows + k})]
        self.results = {"context": CONTEXT, "results": results}
        fit_rules.lists = lambda: known
        record.read = lambda path: self.results

    def said(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            fit_rules.main(list(words))
        return text.getvalue()

    def rules(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            said = self.said("--rules", f"{folder}/rules.txt", "a.json", *words)
            self.assertEqual(self.said("--judge", f"{folder}/rules.txt", "a.json").strip(), said.splitlines()[0])
            return said, (pathlib.Path(folder) / "rules.txt").read_text()

    def test_a_tree_that_no_single_question_makes(self):
        said, text = self.rules()
        self.assertEqual(text.splitlines()[3], "gpu\tA GPU\t132\t6e7\t4e12")
        self.assertIn("A GPU, 2026-11-30, sources 0123456789ab.", text)
        self.assertEqual(sorted(word for word in text.split() if word in ("other", "balanced")), ["balanced", "balanced", "other"])
        head = " ".join(line.lstrip("# ") for line in text.splitlines()[:3])
        self.assertIn("spmv, f32: thresholds: 2, leaves: 3. ", head)
        self.assertIn("by 0.0 % (fitted list, 12), 0.0 % (reported list, 6), ", head)
        self.assertRegex(said, r"1\.500 of the library's fastest; behind on 0 of 6")
        self.assertRegex(said, r"without other: 26\.0 % more")  # 2 of 6 families take twice as long

    def test_a_split_has_two_families_on_either_side(self):
        self.results["results"] = [r for r in self.results["results"] if ":longer:" not in r["problem"]["matrix"]]
        cases = [case for case in fit_rules.cases_of(["a.json"])[0]["spmv"] if case.fitted]
        splits = [(name, below) for tree in [fit_rules.Tree(cases, ["balanced", "other"])]
                  for _, k, below in tree.splits(fit_rules.numpy.arange(len(cases))) for name in [tree.names[k]]]
        self.assertGreaterEqual(len(splits), 8)
        for name, below in splits:
            for side in ([c.family for c in cases if c.features[name] < below], [c.family for c in cases if c.features[name] >= below]):
                self.assertGreaterEqual(len(set(side)), 2, (name, below))

    def test_what_a_form_refuses_the_other_does(self):
        self.results["results"] = [r for r in self.results["results"] if not (r["entry"].endswith("other") and ":few" in r["problem"]["matrix"])]
        self.assertIn("0.0 % (fitted list, 12)", self.rules()[0])
        self.assertNotIn("rows", self.rules()[1].partition("spmv")[2])

    def test_thresholds_lie_between_and_are_short(self):
        for low, high, below in ((2, 30, 8), (1, 1.001, 1.0005), (0, 1, 0.5), (9.99, 10.2, 10)):
            self.assertEqual(fit_rules.threshold(low, high), below)


class BuiltIn(unittest.TestCase):
    def test_what_is_built_in_follows_from_the_records(self):
        """The trees of each GPU of data/rules.txt are those that its records make."""
        built_in = [line.split("\t")[1].lower().replace(" ", "-") for line in (ROOT / "data/rules.txt").read_text().splitlines() if line.startswith("gpu\t")]
        self.assertEqual(built_in, ["nvidia-h200"])
        made = {}
        for op, cases in fit_rules.cases_of(sorted((ROOT / "results/nvidia-h200/rules").glob("*-fitted-*.json")))[0].items():
            made[op] = fit_rules.tree_text(fit_rules.Tree(cases, sorted({form for case in cases for form in case.seconds})).root)
        self.assertEqual(sorted(made), ["spmm", "spmv"])
        self.assertEqual({op: fit_rules.tree_text(tree) for op, tree in fit_rules.trees_in(ROOT / "data/rules.txt").items()}, made)


class Records(unittest.TestCase):
    def test_families_that_are_there_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            results = json.dumps({"context": CONTEXT, "results": []})
            program.write_text(f'#!/bin/bash\necho "$*" >> {folder}/asked\nwhile [ "$1" != --json ]; do shift; done\n'
                               f"echo '{results}' > \"$2\"\n")
            program.chmod(0o755)
            (pathlib.Path(folder) / "python3").symlink_to(sys.executable)  # which has numpy
            run = lambda *words: subprocess.run([ROOT / "tools/fit-rules.sh", "--out", f"{folder}/out", "--rules", f"{folder}/rules.txt", *words],
                                                env={**os.environ, "STAGES_PROGRAM": str(program), "STAGES_LISTS": "fitted", "PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True)
            asked = lambda: (pathlib.Path(folder) / "asked").read_text().splitlines()
            self.assertEqual(run("spmv").returncode, 0)
            first = asked()
            self.assertGreaterEqual(len(first), 28, "families of two types")
            self.assertTrue(all("--op spmv" in line and "gen:" in line for line in first), first)
            self.assertFalse([line for line in first if "gen:ratings" in line])
            next((pathlib.Path(folder) / "out").glob("*citations-f64.json")).unlink()
            self.assertEqual(run("spmv").returncode, 0)
            self.assertEqual(len(asked()) - len(first), 1)
            self.assertIn("--type f64", asked()[-1])
            self.assertEqual(run("--wrong").returncode, 2)


if __name__ == "__main__":
    unittest.main()
