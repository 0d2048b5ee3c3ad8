#!/usr/bin/env python3
"""The programs as a user meets them: commands, exit codes, messages, files.

usage: cli_tests.py --programs DIRECTORY --root DIRECTORY [unittest options]

DIRECTORY of --programs holds `stages` and the programs of the stages; --root is the source tree. Needs nothing beyond Python's
own library. What the documents tell readers to type is tried by tests/documents.
"""

import argparse
import csv
import fcntl
import gzip
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS = None
ROOT = None
LIMIT = 120  # seconds that one command may take; it is a hang long before

SMALL = "gen:uniform:rows=40,cols=40,nnz=200"
WIDE = "gen:uniform:rows=20,cols=50,nnz=150"


def run(*words, program="stages", cwd=None, env=None, limits=None, limit=None):
    """Runs a command and returns what it did."""
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        [str(PROGRAMS / program), *map(str, words)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit or LIMIT,
        preexec_fn=limits,
    )


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def good(self, *words, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, expected, *words, **options):
        """Exit code 2, one line on stderr that says `expected` (a regular expression), nothing on stdout, and no file
        left behind that was not there before."""
        before = sorted(self.directory.rglob("*"))
        done = run(*words, **options)
        said = f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, 2, said)
        self.assertEqual(done.stdout, "", said)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, said)
        program = options.get("program", "stages")
        self.assertTrue(lines[0].startswith(f"{program}: error: "), said)
        self.assertRegex(lines[0], expected, said)
        self.assertEqual(sorted(self.directory.rglob("*")), before, said)
        return done


def entries(**wanted):
    """Names of the entries with these properties, by `stages list --json`."""
    listed = json.loads(run("list", "--json").stdout)["entries"]
    return [e["name"] for e in listed if all(e[key] == value for key, value in wanted.items())]


def host_entry(operation):
    """An entry of stage 01, which every build has."""
    return entries(operation=operation, stage="01_cpu_serial")[0]


def has_ranks():
    """Whether this build has MPI."""
    return any(name.startswith("02_mpi/") for name in entries())


class Help(Case):
    COMMANDS = ["list", "run", "multiply", "info", "generate", "lens"]

    def test_every_help_shows_examples(self):
        for command in [[], *[[c] for c in self.COMMANDS]]:
            done = self.good(*command, "--help")
            self.assertIn("Examples:\n  stages ", done.stdout)
            self.assertEqual(done.stderr, "")
            self.assertNotRegex(done.stdout, r"(?m)^:$")  # the group of hidden options
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), 118, command)

    def test_help_names_every_command_and_the_exit_codes(self):
        text = self.good("--help").stdout
        for command in self.COMMANDS:
            self.assertRegex(text, rf"\n  {command} +\w")
        self.assertIn("77", text)

    def test_examples_parse(self):
        """No option in the examples of run is misspelt: what the parser takes fails at a step that is not there."""
        for line in self.good("run", "--help").stdout.splitlines():
            words = shlex.split(line) if line.startswith("  stages ") else []
            if words[1:2] == ["run"]:
                self.refused("there is no step '(nowhere|vendor)'", *words[1:], "--stage", "nowhere")

    def examples(self, command):
        """The words of each example of a command's help, without the program's name; what comes after two blanks is explained."""
        lines = [line for line in self.good(command, "--help").stdout.splitlines() if line.startswith("  stages ")]
        self.assertTrue(lines, command)
        return [shlex.split(re.split(r" {2,}", line.strip())[0])[1:] for line in lines]

    def test_examples_work(self):
        """Every example is run, on files of the names that it has; those of run in little time: on step 1 where they name no step, and of all built-in matrices SpMV."""
        for name in ("a.mtx", "b.mtx", "cant.mtx.gz", "m.mtx", "web.mtx.gz", "road.mtx"):
            self.good("generate", SMALL, "-o", self.directory / name)
        cols = json.loads(self.good("info", self.directory / "a.mtx", "--json").stdout)["cols"]
        self.write("x.mtx", f"%%MatrixMarket matrix array real general\n{cols} 1\n" + "1\n" * cols)
        (self.directory / "cmake").mkdir()
        self.write("cmake/StagesSteps.cmake", "")  # by which new knows the sources
        for command in self.COMMANDS:
            for words in self.examples(command):
                if "--ranks" in words and not has_ranks():
                    continue
                if command == "run":
                    words = words + [word for more in (["--quick"], ["--stage", "01"]) if more[0] not in words for word in more]
                    words += ["--op", "spmv"] if "data:all" in words else ["--max-work", "3e8"] if "--products" in words else []
                done = run(*words, cwd=self.directory)
                with self.subTest(example=words):
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if command != "run":  # which shows there how far it is
                        self.assertEqual(done.stderr, "")
        self.assertTrue(json.loads((self.directory / "out.json").read_text())["results"])
        self.assertTrue((self.directory / "09_mine").is_dir())

    def test_examples_of_grade_work(self):
        """On an answer of ours; the one that grades all of a student's files finds none in the sources, and says how to make some."""
        subprocess.run([sys.executable, ROOT / "tools/exercises.py", "05_cuda_csr", "-o", self.directory / "my", "--solutions"], check=True, capture_output=True)
        for words in self.examples("grade"):
            with self.subTest(example=words):
                if len(words) > 2:
                    done = run(*words, cwd=self.directory, limit=5 * LIMIT)  # a compiler is among it
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                elif not (ROOT / words[1] / "exercises/mine").exists():
                    self.refused(f"holds no files; make them by tools/exercises.py {words[1]}", *words, cwd=self.directory)

    def test_generators_are_listed(self):
        text = self.good("generate", "--help").stdout
        for name in ("rmat", "twin", "stencil"):
            self.assertIn(f"gen:{name} ", text)
        parameters = self.good("generate", "--list").stdout
        self.assertIn("edge_factor", parameters)
        self.assertIn("data:web", parameters)

    def test_version(self):
        self.assertRegex(self.good("--version").stdout, r"^sparse-stages \d+\.\d+")


class Usage(Case):
    def test_no_command(self):
        self.refused("no command given; the commands are list, run, multiply, info, generate, lens, grade")

    def test_unknown_command_names_the_nearest(self):
        self.refused("there is no command 'mulitply'; the nearest is 'multiply'", "mulitply")

    def test_unknown_option(self):
        self.refused("--bogus", "run", "--bogus")

    def test_long_names_lose_their_middle(self):
        name = 5000 * "a"
        for words in (("multiply", "a.mtx", "b.mtx", "--with", name, "-o", "c.mtx"), ("info", name)):
            self.assertLess(len(run(*words).stderr), 1500)
            self.refused(r"a{300} \.\.\. \(\d+ characters\) \.\.\. ", *words)

    def test_whole_numbers_are_decimal(self):
        self.refused("--products", "run", "-m", SMALL, "--mode", "stream", "--products", "-010")
        out = self.directory / "out.json"
        self.good("run", "-m", SMALL, "--quick", "--op", "spmm", "--stage", "01", "--n-cols", "010,0032", "--json", out)
        self.assertEqual({row["problem"]["options"] for row in json.loads(out.read_text())["results"]}, {"N = 10", "N = 32"})

    def test_missing_arguments(self):
        self.refused("--with", "multiply", "a.mtx", "b.mtx", "-o", "c.mtx")
        self.refused("SPEC", "generate")
        self.refused("--output", "generate", SMALL)

    def test_long_numbers_are_shortened(self):
        number = 309 * "7"
        short = r"7{20}\.\.\. \(309 digits\)"
        self.refused(rf"^stages: error: --seed: {short} is no whole number", "run", "-m", SMALL, "--seed", number)
        self.refused(rf"rows={short},cols=1,nnz=1: rows={short} is not", "info", f"gen:uniform:rows={number},cols=1,nnz=1")

    def test_values_out_of_range(self):
        self.refused("--n-cols", "run", "-m", SMALL, "--n-cols", "0")
        self.refused("--op", "run", "-m", SMALL, "--op", "spxx")
        self.refused("--type", "run", "-m", SMALL, "--type", "f16")
        self.refused("--max-noise", "run", "-m", SMALL, "--max-noise", "-1")
        self.refused("--cache", "run", "-m", SMALL, "--cache", "warm")
        self.refused("--check", "run", "-m", SMALL, "--check", "never")
        self.refused("--products 5: a single product", "run", "-m", SMALL, "--products", "5")
        for words, what in ((("--op", "spmv", "-b", SMALL), "-b is for spgemm, and this run has spmv only"),
                            (("--op", "spgemm", "--n-cols", "8"), "--n-cols is for spmm, and this run has spgemm only"),
                            (("--op", "spmv,spgemm", "--alpha", "2"), "--alpha is for spmm, and this run has spmv, spgemm only"),
                            (("-b", SMALL, "--mode", "chain"), r"--mode is for spmv, and this run has spgemm \(-b\) only")):
            self.refused(what, "run", "-m", SMALL, *words)

    def test_numbers_that_would_judge_nothing(self):
        for flag in ("--alpha", "--beta", "--max-noise", "--time-budget", "--max-memory", "--max-work", "--max-seconds"):
            for value in ("nan", "inf", "1e400"):
                self.refused(rf"{flag}.*{value} is no finite number", "run", "-m", SMALL, "--op", "spmm", flag, value)
        self.refused("--alpha 1e.40: f32 ends at 3.4e.38", "run", "-m", SMALL, "--op", "spmm", "--stage", "01", "--alpha", "1e40")
        for value in ("-1", "18446744073709551616", "1.5"):
            self.refused(f"--seed.*{value} is no whole number from 0 to 18446744073709551615", "run", "-m", SMALL, f"--seed={value}")

    def test_empty_numbers(self):
        for option in ("--alpha", "--beta", "--max-noise", "--max-work"):
            self.refused(f"{option}: its value is empty", "run", "-m", SMALL, "--op", "spmm", option, "")

    def test_empty_names_of_matrices(self):
        self.refused("MATRIX: its value is empty", "info", "")
        self.refused("--matrix-b: its value is empty", "run", "-m", SMALL, "-b", "", "--op", "spgemm")

    def test_result_files_that_are_something_else(self):
        a = self.write("a.mtx", MATRIX)
        link = self.directory / "link.mtx"
        link.symlink_to(a)
        for flag in ("--json", "--csv"):
            self.refused(f"{flag}.* empty", "run", "-m", a, flag, "")
            for name in (a, link, self.directory / "." / "a.mtx"):
                self.refused(f"{flag} .*: that is the matrix which is read; name another file", "run", "-m", a, flag, name)
            self.refused("that is the matrix which is read", "run", "-m", SMALL, "-b", a, "--op", "spgemm", flag, a)
        self.refused("--json and --csv both name", "run", "-m", a, "--json", self.directory / "x", "--csv", f"{self.directory}/./x")
        self.refused("--output .*: that is the matrix which is read", "multiply", "--with", host_entry("spgemm"), a, SMALL, "-o", link)
        self.assertEqual(a.read_text(), MATRIX)

    def test_a_bad_schedule(self):
        if not any(entry.startswith("03_") for entry in entries()):
            self.skipTest("this build has no executor")
        self.refused("STAGES_SCHEDULE.* is 'sideways'", "run", "-m", SMALL, "--stage", "03", "--quick", env={"STAGES_SCHEDULE": "sideways"})

    def test_numbers_of_the_executor(self):
        if not any(entry.startswith("03_") for entry in entries()):
            self.skipTest("this build has no executor")
        for name, what in (("STAGES_WATCHDOG", "seconds"), ("STAGES_WORKERS", "a whole number"), ("STAGES_DEVICE_MEMORY", "a whole number of MiB"),
                           ("STAGES_DEVICE_SMS", "a whole number"), ("STAGES_DEVICE_L2", "a whole number of MiB"), ("STAGES_RACES_MEMORY", "a whole number of MiB")):
            for text in ("many", "0", "-1", "4x", "nan", "1e30", "99999999999999999999") + (("1.5",) if what != "seconds" else ()):
                self.refused(rf"{name} is '{re.escape(text)}'; it must be {what}, above 0 and at most \d+$", "run", "-m", SMALL, "--stage", "03",
                             "--quick", env={name: text})

    def test_strange_file_names(self):
        """Control characters do not reach the terminal, and CSV is UTF-8."""
        matrix = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n"
        for name in (b"a\x1b[31mred.mtx", b"two\nlines.mtx", b"no\xfftext.mtx"):
            path = os.path.join(os.fsencode(self.directory), name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(matrix)
            table = self.directory / "out.csv"
            done = subprocess.run([PROGRAMS / "stages", "run", "-m", path, "--quick", "--stage", "01", "--op", "spmv", "--csv", table],
                                  capture_output=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(b"\x1b", done.stdout + done.stderr)
            self.assertNotIn(b"two\n", done.stdout + done.stderr)
            table.read_text(encoding="utf-8")
            missing = subprocess.run([PROGRAMS / "stages", "info", path + b"\x1b"], capture_output=True, timeout=LIMIT)
            self.assertNotIn(b"\x1b", missing.stderr)

    def test_bad_regular_expression(self):
        self.refused(r"--filter '\(': no regular expression", "run", "-m", SMALL, "--filter", "(")

    def test_patterns_that_would_take_all_time_or_memory(self):
        """Each ends within a second or so, with a match, with none, or with an error of one line."""
        refused = {
            "back-references": r"(a*)(a*)\1\2b",
            "braces": "a{2}",
            "depth": "(" * 101 + "a" + ")" * 101,
            "open brackets": "(" * 1000,
            "stars": "a*****",
            "repeats in groups": "(" * 10 + "a" + "+)" * 10,
            "length": "a" * 120000,
        }
        for what, pattern in refused.items():
            with self.subTest(what):
                begun = time.monotonic()
                self.refused("--filter '.{1,60}': ", "run", "-m", SMALL, "--filter", pattern)
                self.assertLess(time.monotonic() - begun, 5)
        for pattern in ("(a*)*b", "(a|aa)*b", "(.*)*(.*)*(.*)*z", "(((" + "a" * 4000 + "+)+)+)+", "(" * 100 + "csr" + ")" * 100, "a?" * 1000 + "a" * 1000,
                        r"\\|[[:digit:]]_cpu", r"\(x\)", "[]*+(]|[[.-.]*]", ")", "|".join(entries())):
            with self.subTest(pattern[:40]):
                begun = time.monotonic()
                done = run("run", "-m", SMALL, "--op", "spmv", "--stage", "01", "--max-work", "1", "--filter", pattern)
                self.assertIn(done.returncode, (2, 77), done.stderr)
                self.assertNotIn("--filter '", done.stderr)
                self.assertLess(time.monotonic() - begun, 5)

    def test_nothing_matches(self):
        self.refused("no entry is left", "run", "-m", SMALL, "--filter", "no such entry")

    def test_unknown_stage(self):
        self.refused("--stage: there is no step '01_cpu_seriall'; the nearest is '01_cpu_serial'",
                     "run", "-m", SMALL, "--stage", "01_cpu_seriall")

    def test_unknown_entry_names_the_nearest(self):
        a = self.write("a.mtx", MATRIX)
        name = host_entry("spgemm")
        self.refused(f"there is no entry '{name}x'; the nearest (is|are) .*'{name}'",
                     "multiply", "--with", name + "x", a, a, "-o", self.directory / "c.mtx")

    def test_chain_needs_a_square_matrix(self):
        self.refused("square", "run", "-m", WIDE, "--op", "spmv", "--mode", "chain", "--stage", "01")


MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2\n1 3 -1\n2 2 1.5\n3 1 4\n"
VECTOR = "%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n"
DENSE = "%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n4\n5\n6\n"


class BadInput(Case):
    """Each is a one-line error with file:line or the argument, exit 2, and nothing half-written."""

    def file(self, expected, text, name="bad.mtx"):
        path = self.write(name, text)
        for words in (["info", path],
                      ["run", "-m", path, "--quick", "--json", self.directory / "out.json", "--stage", "01"],
                      ["multiply", "--with", host_entry("spgemm"), path, path, "-o", self.directory / "c.mtx"]):
            self.refused(re.escape(str(path)) + expected, *words)

    def test_missing_file(self):
        self.refused(r"none\.mtx: .*No such file", "info", self.directory / "none.mtx")
        self.refused(r"none\.mtx: .*No such file", "run", "-m", SMALL, self.directory / "none.mtx")

    def test_a_missing_file_ends_the_run_before_it_starts(self):
        begun = time.monotonic()
        self.refused("No such file", "run", "-m", "data:reddit", self.directory / "none.mtx", "--op", "spgemm")
        self.assertLess(time.monotonic() - begun, 20)

    def test_directory(self):
        self.refused(str(self.directory), "info", self.directory)

    def test_truncated(self):
        self.file(r":\d+: .*4", MATRIX.rsplit("\n", 2)[0] + "\n")

    def test_truncated_gzip(self):
        path = self.directory / "cut.mtx.gz"
        whole = gzip.compress((MATRIX + "% " + "padding " * 2000).encode())
        path.write_bytes(whole[: len(whole) // 2])
        self.refused(r"cut\.mtx\.gz", "info", path)

    def test_too_many_entries(self):
        self.file(r":7: ", MATRIX + "3 3 1\n")

    def test_index_out_of_range(self):
        self.file(r":4: ", MATRIX.replace("1 3 -1", "1 4 -1"))
        self.file(r":4: ", MATRIX.replace("1 3 -1", "0 3 -1"))

    def test_number_that_does_not_parse(self):
        self.file(r":5: .*1\.5x", MATRIX.replace("1.5", "1.5x"))

    def test_number_that_overflows(self):
        self.file(r":5: .*1e999", MATRIX.replace("1.5", "1e999"))

    def test_repeats_whose_sum_overflows(self):
        head = "%%MatrixMarket matrix coordinate real general\n"
        wide = self.write("wide.mtx", head + "2 2 3\n1 1 1e308\n2 2 1\n1 1 1e308\n")
        single = self.write("single.mtx", head + "2 2 3\n1 1 2e38\n1 1 2e38\n2 2 1\n")
        mirrored = self.write("mirrored.mtx", head.replace("general", "symmetric") + "2 2 2\n2 1 -2e38\n2 1 -2e38\n")
        said = r"add up to more than a {}-bit float holds; keep one of them, or scale the matrix"
        self.refused(r"wide\.mtx:5: the entries at row 1, column 1 " + said.format(64), "run", "-m", wide, "--type", "f64")
        self.refused(r"single\.mtx:4: the entries at row 1, column 1 " + said.format(32), "run", "-m", single)
        self.refused(r"mirrored\.mtx:4: the entries at row \d, column \d " + said.format(32), "run", "-m", mirrored)
        self.assertIn("NaN, infinite    1", self.good("info", wide).stdout)

    def test_single_precision_overflows_by_itself(self):
        path = self.write("large.mtx", MATRIX.replace("1.5", "1e39"))
        self.good("info", path)
        self.refused(r"large\.mtx:5: ", "run", "-m", path, "--type", "f32", "--quick", "--stage", "01")

    def test_complex_is_refused_by_name(self):
        self.file(r":1: .*[Cc]omplex", "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n")

    def test_no_matrix_market(self):
        self.file(r":1: ", "hello\n")
        self.file(r":", "")

    def test_not_finite_values_cannot_be_checked(self):
        path = self.write("nan.mtx", MATRIX.replace("1.5", "nan"))
        self.good("info", path)
        self.refused(r"nan\.mtx:5: ", "run", "-m", path, "--quick", "--stage", "01")
        c = self.directory / "c.mtx"
        self.refused(r"nan\.mtx:5: ", "multiply", "--with", host_entry("spgemm"), path, path, "-o", c)
        self.good("multiply", "--no-check", "--with", host_entry("spgemm"), path, path, "-o", c)

    def test_dimensions_that_do_not_match(self):
        a = self.write("a.mtx", MATRIX)
        b = self.write("b.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n")
        x = self.write("x.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n2\n")
        out = ["-o", self.directory / "c.mtx"]
        self.refused("A is 3 x 3 and B is 2 x 2", "multiply", "--with", host_entry("spgemm"), a, b, *out)
        self.refused("A is 3 x 3 and B is 2 x 1", "multiply", "--with", host_entry("spmv"), a, x, *out)
        self.refused("A is 3 x 3 and B is 2 x 2", "run", "-m", a, "-b", b, "--stage", "01")

    def test_unknown_generator_and_parameter(self):
        self.refused("gen:rmatt: there is no generator 'rmatt'; the nearest is 'rmat'", "info", "gen:rmatt")
        self.refused("colour", "info", "gen:rmat:colour=red")
        self.refused("data:webb: .*'web'", "info", "data:webb")
        self.refused("is no spec", "generate", "somefile.mtx", "-o", self.directory / "c.mtx")

    def test_unwritable_output(self):
        nowhere = self.directory / "no" / "such" / "place.json"
        for flag in ("--json", "--csv"):
            self.refused(f"{flag}: .*place.json: cannot be written .No such file", "run", "-m", SMALL, flag, nowhere)
            self.refused(f"{flag}: ", "run", "-m", SMALL, flag, self.directory)
        self.refused("--output: ", "generate", SMALL, "-o", nowhere)
        a = self.write("a.mtx", MATRIX)
        self.refused("--output: ", "multiply", "--with", host_entry("spgemm"), a, a, "-o", nowhere)

    def test_unwritable_output_is_found_before_the_work(self):
        begun = time.monotonic()
        self.refused("--json", "run", "--json", self.directory / "no" / "place.json")
        self.assertLess(time.monotonic() - begun, 5)

    def test_one_file_for_both_results(self):
        self.refused("--json and --csv", "run", "-m", SMALL, "--json", self.directory / "o", "--csv", self.directory / "o")

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        self.refused("/dev/full", "generate", SMALL, "-o", "/dev/full")

    def test_full_standard_output(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAMS / "stages", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output", done.stderr)

    def test_more_memory_than_there_is(self):
        lying = self.write("lying.mtx", "%%MatrixMarket matrix coordinate real general\n"
                           "2000000000 2000000000 900000000000\n1 1 1\n")
        self.refused(r"lying\.mtx:", "info", lying)
        self.refused("gen:uniform", "info", "gen:uniform:n=2e9,nnz=1e12")
        self.refused("gen:uniform", "run", "-m", "gen:uniform:n=2e9,nnz=1e12")
        dense = self.write("dense.mtx", "%%MatrixMarket matrix array real general\n2000000000 2000000000\n1\n")
        self.refused(r"dense\.mtx:", "info", dense)

    def test_allocation_that_fails(self):
        """Under a limit that the program cannot foresee, std::bad_alloc becomes a message."""
        if "-fsanitize" in sanitizers():
            self.skipTest("AddressSanitizer needs the address space")
        limit = 700 << 20

        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        self.refused("memory", "info", "gen:uniform:n=1e6,nnz=5e7", limits=limits)


def sanitizers():
    """The compiler flags that the program was built with."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out.json"
        run("run", "-m", "gen:eye:n=3", "--op", "spmv", "--stage", "01", "--quick", "--json", out)
        return json.loads(out.read_text())["context"]["flags"]


class List(Case):
    def test_text(self):
        text = self.good("list").stdout
        self.assertTrue(text.startswith("01_cpu_serial\n"), text[:200])
        for name in entries():
            self.assertIn(name, text)
        self.assertNotIn("\033", text)

    def test_json(self):
        listed = json.loads(self.good("list", "--json").stdout)
        self.assertEqual(listed["schema_version"], 1)
        self.assertEqual({"schema_version", "version", "backend", "entries", "left_out"}, set(listed))
        for entry in listed["entries"]:
            self.assertEqual({"name", "stage", "operation", "idea", "peer", "needs", "claims"}, set(entry))
            self.assertIn(entry["operation"], ("spmv", "spmm", "spgemm"))
            self.assertTrue(entry["name"].startswith(entry["stage"] + "/"))
            self.assertGreater(len(entry["idea"]), 10, entry)
            self.assertEqual(entry["peer"], entry["stage"] == "vendor")
        self.assertTrue({"spmv", "spmm", "spgemm"} <= {e["operation"] for e in listed["entries"]})

    def test_stage_program_has_only_its_entries(self):
        text = self.good("list", program="01_cpu_serial").stdout
        self.assertIn("01_cpu_serial/", text)
        self.assertNotIn("vendor", text)
        self.good("run", "-m", SMALL, "--quick", program="01_cpu_serial")
        self.refused("no command given; the commands are list, run, multiply, info, generate;", program="01_cpu_serial")
        self.refused("there is no command 'lens'", "lens", program="01_cpu_serial")

    def test_the_program_of_a_step_with_kernels_has_the_lens(self):
        self.assertIn("sectors", self.good("lens", "04_cuda_shared/batched_loads", "-m", "gen:fixed:n=64,zeros=0.8",
                                           program="04_cuda_shared").stdout)
        self.refused("there is no command 'grade'", "grade", program="04_cuda_shared")


class Run(Case):
    def results(self, *words, code=0, program="stages"):
        out = self.directory / "out.json"
        done = run("run", *words, "--json", out, program=program)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(out.read_text()), done

    def test_everything_on_a_small_matrix(self):
        results, done = self.results("-m", SMALL, "--quick", "--all")
        self.assertEqual(results["schema_version"], 1)
        for key in ("command", "date", "version", "source_digest", "compiler", "flags", "cpu", "memory", "system"):
            self.assertIn(key, results["context"])
        rows = results["results"]
        self.assertEqual(sorted(r["entry"] for r in rows), sorted(entries()))
        for row in rows:
            self.assertIn(row["status"], ("good", "skipped"), row)
            if row["status"] == "skipped":
                self.assertTrue(row["reason"], row)
                continue
            self.assertTrue(row["check"]["passed"])
            self.assertLessEqual(row["check"]["worst_share_of_bound"], 1)
            if row["simulated"]:
                continue
            for key in ("median", "q1", "q3", "noise", "samples"):
                self.assertIn(key, row["seconds"]["run"])
            self.assertLessEqual(row["seconds"]["run"]["q1"], row["seconds"]["run"]["q3"])
            for key in ("gflops", "bandwidth_share", "speedup_previous", "speedup_peer", "break_even_products"):
                self.assertIn(key, row)
        for row in rows:
            self.assertIn(row["entry"], done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^\d+ good, 0 wrong, 0 failed, \d+ skipped$")
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertIn(f"[{len(rows)}/{len(rows)}]", done.stderr)

    def test_csv_says_the_same(self):
        out = self.directory / "out.csv"
        results, _ = self.results("-m", SMALL, "--quick", "--stage", "01", "--csv", out)
        with out.open(newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["entry"] for line in lines], [r["entry"] for r in results["results"]])
        for line, row in zip(lines, results["results"]):
            self.assertEqual(line["status"], row["status"])
            self.assertEqual(line["operation"], row["problem"]["operation"])
            if row["status"] == "good":
                self.assertAlmostEqual(float(line["run_median_s"]) / row["seconds"]["run"]["median"], 1, delta=1e-4)  # five digits

    def test_choices(self):
        results, _ = self.results("-m", SMALL, "--quick", "--stage", "01", "--op", "spmv,spmm", "--n-cols", "3,33",
                                  "--type", "f64", "--filter", "csr")
        problems = {(r["problem"]["operation"], r["problem"]["options"]) for r in results["results"]}
        self.assertEqual(problems, {("spmv", ""), ("spmm", "N = 3"), ("spmm", "N = 33")})
        for row in results["results"]:
            self.assertEqual(row["problem"]["type"], "f64")
            self.assertIn("csr", row["entry"])
            self.assertTrue(row["entry"].startswith("01_cpu_serial/"))

    def test_modes(self):
        for mode in ("stream", "chain"):
            results, _ = self.results("-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--mode", mode,
                                      "--products", "7")
            for row in results["results"]:
                self.assertEqual(row["problem"]["options"], f"{mode} of 7")
                self.assertEqual(row["problem"]["products"], 7)

    def test_alpha_beta_and_layout(self):
        results, _ = self.results("-m", WIDE, "--quick", "--op", "spmm", "--alpha", "2", "--beta", "-0.5", "--layout", "col")
        for row in results["results"]:
            self.assertIn("alpha = 2, beta = -0.5", row["problem"]["options"])
            self.assertIn("col-major", row["problem"]["options"])

    def test_columns_of_step_7_on_a_matrix_of_a_course(self):
        """268 thousand non-zeros by 32 columns: no entry of step 7 is left out on the executor."""
        listed = [e for e in entries(operation="spmm") if e.startswith("07_spmm/")]
        if not listed:
            self.skipTest("this build has no kernels")
        results, _ = self.results("-m", "data:fem", "--quick", "--op", "spmm", "--stage", "07", "--n-cols", "32")
        self.assertEqual([(r["entry"], r["status"]) for r in results["results"]], [(entry, "good") for entry in listed])

    def test_rectangular_squares(self):
        tall, _ = self.results("-m", "gen:uniform:rows=60,cols=9,nnz=150", "--quick", "--stage", "01", "--op", "spgemm")
        wide, _ = self.results("-m", "gen:uniform:rows=9,cols=60,nnz=150", "--quick", "--stage", "01", "--op", "spgemm")
        self.assertEqual({r["problem"]["options"] for r in tall["results"]}, {"A^T A"})
        self.assertEqual({r["problem"]["options"] for r in wide["results"]}, {"A A^T"})

    def test_pairs(self):
        results, _ = self.results("-m", WIDE, "-b", "gen:uniform:rows=50,cols=30,nnz=80", "--quick", "--stage", "01")
        for row in results["results"]:
            self.assertEqual(row["problem"]["operation"], "spgemm")
            self.assertEqual(row["problem"]["result_cols"], 30)

    def test_index_base_0(self):
        path = self.write("d1.mtx", "%MatrixMarket matrix coordinate real general\n3 3 4\n0 -1 1.0\n0 0 1\n1 2 1\n2 2 1\n")
        self.refused(r"d1\.mtx:3: ", "info", path, "--index-base", "0")
        done = self.good("info", path, "--json", "--index-base", "0", "--drop-out-of-range")
        self.assertEqual(json.loads(done.stdout)["nnz"], 3)
        self.assertIn("1 entry outside the matrix left out", done.stderr)

    def test_built_in_set_takes_its_operations(self):
        """d1_uniform is meant for SpGEMM alone, with a B of its own."""
        results, _ = self.results("-m", "data:d1_uniform", "--stage", "01", "--max-work", "1", code=77)
        self.assertEqual({r["problem"]["operation"] for r in results["results"]}, {"spgemm"})
        self.assertEqual({r["problem"]["options"] for r in results["results"]}, {"times gen:d1:b,form=uniform"})

    def test_integers_that_are_rounded_are_told_of(self):
        matrix = self.write("a.mtx", f"%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 {2**24 + 1}\n2 2 {2**53 + 1}\n")
        words = ["run", "-m", matrix, "--quick", "--filter", "/csr_spmv$", "--stage", "01"]
        self.assertIn("a.mtx: 2 integers beyond 2^24 rounded to the nearest f32; --type f64 keeps", self.good(*words).stderr)
        self.assertIn("a.mtx: 1 integer beyond 2^53 rounded to the nearest f64\n", self.good(*words, "--type", "f64").stderr)
        lost = shlex.join(map(str, [PROGRAMS / "stages", *words])) + " 2>/dev/full"
        self.assertEqual(subprocess.run(["bash", "-c", lost], stdout=subprocess.DEVNULL, timeout=LIMIT).returncode, 0)

    def test_limits_skip_with_the_number(self):
        words = ["-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--all"]
        for limit, expected in ((["--max-work", "1"], r"needs [\d.]+ k? ?steps, the limit is 1 \(--max-work\)"),
                                (["--max-memory", "1e-9"], r"needs .* of memory, the limit is .* \(--max-memory\)")):
            results, done = self.results(*words, *limit, code=77)
            for row in results["results"]:
                self.assertEqual(row["status"], "skipped")
                self.assertRegex(row["reason"], expected)
                self.assertIn(row["reason"], done.stdout)

    def test_what_takes_too_long_on_the_executor_is_stopped(self):
        if json.loads(run("list", "--json").stdout)["backend"] != "cpu" or "08_spgemm_multigpu/binned" not in entries():
            self.skipTest("no kernel runs on the executor here")
        started = time.monotonic()
        results, _ = self.results("-m", "data:circuit", "--op", "spgemm", "--filter", "binned", "--max-seconds", "0.5", code=77)
        self.assertLess(time.monotonic() - started, 20)  # all of the check takes a minute
        self.assertRegex(results["results"][0]["reason"], r"not done after 500 ms on the executor, the limit \(--max-seconds\)")

    def test_what_no_gpu_tells_cannot_be_asked_for(self):
        if json.loads(run("list", "--json").stdout)["backend"] != "cpu":
            self.skipTest("a GPU may tell")
        out = self.directory / "out.json"
        for option, value, what in ("--require-clock", "1700", "the GPU's clock"), ("--energy", "2", "what the GPU draws"):
            done = run("run", "-m", SMALL, "--op", "spmv", "--quick", option, value, "--json", out)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, f"^stages: error: {option} {value}: {what} is not known: [^\n]+\n$")
            self.assertEqual(done.stdout, "")
            self.assertFalse(out.exists())
        done = run("run", "-m", SMALL, "--energy", "2", "--cache", "cold")
        self.assertEqual((done.returncode, done.stderr), (2, "stages: error: --energy and --cache cold: flushing the caches draws, too; leave one of them out\n"))
        done = run("run", "-m", SMALL, "--energy", "0.5")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--energy: Value 0.5 not in range 1", done.stderr)

    def test_as_many_products_as_the_limits_allow(self):
        words = ["-m", "gen:uniform:rows=5000,cols=5000,per_row=8", "--op", "spmv", "--mode", "stream", "--quick", "--stage", "01"]
        for limit, products in ([], 100), (["--max-work", "2e6"], 50), (["--max-work", "2e6", "--products", "60"], 60):
            results, _ = self.results(*words, *limit, code=77 if products == 60 else 0)
            self.assertEqual({row["problem"]["products"] for row in results["results"]}, {products})

    def test_some_skipped_is_good(self):
        results, _ = self.results("-m", "gen:uniform:n=300,nnz=900", "--quick", "--stage", "01", "--op", "spmv",
                                  "--max-work", "2e4")
        self.assertEqual({r["status"] for r in results["results"]}, {"good", "skipped"})

    def test_results_are_replaced_whole(self):
        out = self.write("out.json", "old")
        self.good("run", "-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--json", out)
        json.loads(out.read_text())
        self.assertEqual([p.name for p in self.directory.iterdir()], ["out.json"])

    def test_checked_once_is_checked(self):
        results, _ = self.results("-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--check", "once")
        for row in results["results"]:
            self.assertEqual(row["status"], "good")
            self.assertGreater(row["check"]["rows_checked"], 0)
            self.assertIn("seconds", row)
        self.assertIn("--check once", results["context"]["command"])

    def test_cold_and_seed(self):
        self.results("-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--cache", "cold", "--seed", "77")


    def test_skipped_rows_fold(self):
        words = ["-m", SMALL, "--quick", "--stage", "01", "--op", "spgemm", "--max-work", "1"]
        results, done = self.results(*words, code=77)
        rows = results["results"]
        self.assertGreater(len(rows), 1)
        self.assertIn(f"{len(rows)} skipped (--all shows them), such as {rows[0]['entry']}: {rows[0]['reason']}", done.stdout)
        self.assertNotIn(rows[1]["entry"], done.stdout)
        _, done = self.results(*words, "--all", code=77)
        for row in rows:
            self.assertRegex(done.stdout, rf"{row['entry']} +skipped: needs")
        _, done = self.results(*words, "--filter", "hypersparse", code=77)  # one alone needs no line for it
        self.assertRegex(done.stdout, r"hypersparse +skipped: needs")

    def test_the_whole_set(self):
        """data:all is the built-in set, each matrix with the operations that it is meant for."""
        results, _ = self.results("-m", "data:all", "--stage", "01", "--max-work", "1", code=77)
        asked = {(r["problem"]["matrix"], r["problem"]["operation"]) for r in results["results"]}
        self.assertIn(("data:d2", "spmm"), asked)
        self.assertNotIn(("data:d2", "spgemm"), asked)
        self.assertNotIn(("data:hypersparse", "spmm"), asked)


class Kept(Case):
    """What was found out is written, whatever comes after it."""

    HOST = ["--quick", "--op", "spmv", "--filter", "01_cpu_serial/(dense_spmv|csr_spmv|csr_spmv_by_length)$"]
    BAD = "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n2 9 1\n"

    def setUp(self):
        super().setUp()
        self.json, self.csv = self.directory / "out.json", self.directory / "out.csv"
        self.files = ["--json", self.json, "--csv", self.csv]

    def statuses(self):
        """Of each matrix, from both files, which say alike whether they are a part."""
        results = json.loads(self.json.read_text())
        from_json = [(row["problem"]["matrix"], row["status"]) for row in results["results"]]
        with open(self.csv, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if "part" in results["context"]:
            last = rows.pop()
            self.assertEqual((last["entry"], last["reason"]), ("", results["context"]["part"] + "; what is not above was not reached"))
        self.assertEqual([(row["matrix"], row["status"]) for row in rows], from_json)
        return results["context"], set(from_json)

    def test_results_in_one_file_by_a_link_to_nothing(self):
        (self.directory / "link").symlink_to(self.json)
        self.refused("give two files", "run", "-m", SMALL, *self.HOST, "--json", self.json, "--csv", self.directory / "link")

    def test_a_directory_that_is_gone(self):
        gone = self.directory / "gone"
        gone.mkdir()
        shell = f"cd {gone} && rmdir {gone} && {shlex.join(map(str, [PROGRAMS / 'stages', 'run', '-m', SMALL, *self.HOST, *self.files]))}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, self.statuses()[1]), (0, {(SMALL, "good")}), done.stderr)

    def test_long_arguments_in_messages(self):
        done = self.refused("cannot be opened", "info", "x" * 5000)
        self.assertLess(len(done.stderr), 2000)

    def test_a_matrix_that_cannot_be_read_is_a_row(self):
        bad = self.write("bad.mtx", self.BAD)
        done = run("run", "-m", SMALL, bad, WIDE, *self.HOST, *self.files)
        self.assertEqual(done.returncode, 2, done.stderr)
        said = f"{bad}:4: the entry at row 2, column 9 lies outside"
        self.assertEqual(done.stderr.count(said), 1, done.stderr)
        self.assertRegex(done.stdout, rf"all \d+ entries FAILED: {re.escape(said)}")
        context, statuses = self.statuses()
        self.assertEqual(statuses, {(SMALL, "good"), (str(bad), "failed"), (WIDE, "good")})
        self.assertIn(said, context["errors"])

    def test_where_nothing_can_be_read_nothing_is_written(self):
        bad = self.write("bad.mtx", self.BAD)
        self.refused(r"bad\.mtx:4", "run", "-m", bad, *self.HOST, *self.files)

    def test_what_headers_tell_comes_before_the_first_product(self):
        wide = self.write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 1 1\n")
        self.refused("A is 3 x 4 and B is 40 x 40", "run", "-m", SMALL, wide, "-b", SMALL, *self.files)
        self.refused("a chain of products needs a square matrix", "run", "-m", SMALL, wide, "--mode", "chain", *self.HOST,
                     *self.files)

    def interrupted(self, number):
        """A run that is told to end while it works on its second matrix."""
        process = subprocess.Popen([PROGRAMS / "stages", "run", "-m", SMALL, "gen:uniform:rows=20000,cols=20000,per_row=50",
                                    "--op", "spmv,spgemm", "--stage", "01", "--time-budget", "30", "--max-noise", "1e-9", *self.files],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
        for line in process.stderr:
            if SMALL in line and "spgemm" in line:
                break
        time.sleep(0.3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=LIMIT)
        return process.returncode, out

    def test_a_run_that_is_ended_leaves_a_part(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2,
                       signal.SIGALRM):
            with self.subTest(number):
                code, out = self.interrupted(number)
                self.assertEqual(code, -number)
                why = f"the run was ended by {number.name}"
                self.assertIn(why, out)
                context, statuses = self.statuses()
                self.assertEqual(context["part"], why)
                self.assertIn((SMALL, "good"), statuses)
                self.assertNotEqual({matrix for matrix, _ in statuses}, {SMALL}, "the matrix under way has rows, too")
                self.json.unlink()
                self.csv.unlink()

    def test_a_run_that_is_ended_at_once_keeps_earlier_results(self):
        self.json.write_text("old")
        process = subprocess.Popen([PROGRAMS / "stages", "run", "-m", "gen:uniform:rows=200000,cols=200000,per_row=200", *self.HOST, *self.files],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        process.terminate()
        out, _ = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, out, self.json.read_text()), (-signal.SIGTERM, "", "old"))

    def test_a_signal_while_files_are_written(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # too small for the file: the program waits in the middle of it
            process = subprocess.Popen([PROGRAMS / "stages", "run", "-m", SMALL, *self.HOST, "--json", pipe, "--csv", self.csv],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertTrue(select.select([reader], [], [], LIMIT)[0])
            process.terminate()
            time.sleep(0.3)
            os.set_blocking(reader.fileno(), True)
            text = reader.read()
        self.assertGreater(len(text), 4096)
        self.assertEqual(len(json.loads(text)["results"]), 3)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(len(self.csv.read_text().splitlines()), 4)

    def test_a_signal_while_ranks_run(self):
        """What they have found out by then is kept, and nothing of them stays."""
        if "02_mpi" not in {entry.split("/")[0] for entry in entries()}:
            self.skipTest("this build has no MPI")
        temporary = self.directory / "tmp"
        temporary.mkdir()
        process = subprocess.Popen([PROGRAMS / "stages", "run", "-m", SMALL, "gen:uniform:rows=20000,cols=20000,per_row=50", "--op", "spgemm",
                                    "--filter", "02_mpi/balanced", "--ranks", "2", "--time-budget", "30", "--max-noise", "1e-9", *self.files],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)})
        for line in process.stderr:
            if SMALL in line:
                break
        process.terminate()
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        context, statuses = self.statuses()
        self.assertEqual(context["part"], "the run was ended by SIGTERM")
        self.assertIn((SMALL, "good"), statuses)
        self.assertEqual(list(temporary.glob("*.json")), [])

    LONG_ON_RANKS = ["run", "-m", SMALL, "gen:uniform:rows=20000,cols=20000,per_row=50", "--op", "spgemm", "--filter", "02_mpi/balanced",
                     "--ranks", "2", "--time-budget", "30", "--max-noise", "1e-9"]

    def on_ranks(self, script, *words):
        """Starts a command whose mpirun is this script."""
        if not has_ranks():
            self.skipTest("this build has no MPI")
        launcher = self.write("launcher", "#!/bin/sh\n" + script)
        launcher.chmod(0o755)
        return subprocess.Popen([PROGRAMS / "stages", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "STAGES_MPIRUN": str(launcher)})

    def test_an_mpirun_that_takes_long_to_end(self):
        process = self.on_ranks('trap "kill -TERM \\$pid; sleep 8; exit 1" TERM; mpirun -q "$@" & pid=$!; wait $pid\n', *self.LONG_ON_RANKS,
                                *self.files)
        for line in process.stderr:
            if SMALL in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGINT)
        context, statuses = self.statuses()
        self.assertEqual(context["part"], "the run was ended by SIGINT")
        self.assertIn((SMALL, "good"), statuses)

    def test_a_signal_to_mpirun_itself(self):
        """Its exit code is then that of a wrong result; what rank 0 has found out is kept, also where it is killed."""
        number = self.directory / "number"
        for sent, code_says in ((signal.SIGTERM, "was ended by SIGTERM"), (signal.SIGHUP, "was ended by SIG"),
                                (signal.SIGKILL, "the ranks were ended before they were done")):
            with self.subTest(sent):
                process = self.on_ranks(f'echo $$ > {number}; exec mpirun -q "$@"\n', *self.LONG_ON_RANKS, *self.files)
                for line in process.stderr:
                    if SMALL in line:
                        break
                time.sleep(0.5)
                os.kill(int(number.read_text()), sent)
                _, errors = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 2, errors)
                self.assertIn("--ranks: the run on 2 ranks was ended", errors)
                context, statuses = self.statuses()
                self.assertIn(code_says, context["part"])
                self.assertIn("the run on 2 ranks was ended", context["errors"])
                self.assertIn((SMALL, "good"), statuses)
                self.json.unlink()
        process = self.on_ranks(f'echo $$ > {number}; exec mpirun -q "$@"\n', "multiply", "gen:uniform:n=60000,per_row=30",
                                "gen:uniform:n=60000,per_row=30", "--with", "02_mpi/balanced", "--ranks", "2", "-o", self.directory / "c.mtx")
        time.sleep(1.5)
        os.kill(int(number.read_text()), signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 2, errors)
        self.assertIn("--ranks: the run on 2 ranks was ended before it was done", errors)

    def test_an_mpirun_that_is_killed(self):
        """What was checked until then is kept, and nothing of Open MPI's stays."""
        number, temporary = self.directory / "number", self.directory / "temporary"
        temporary.mkdir()
        if not has_ranks():
            self.skipTest("this build has no MPI")
        mpirun = self.write("mpirun", f"#!/bin/sh\necho $$ > {number}; exec {shutil.which('mpirun')} \"$@\"\n")
        mpirun.chmod(0o755)
        process = subprocess.Popen([PROGRAMS / "stages", "run", "-m", SMALL, "--op", "spgemm", "--filter", "02_mpi/(balanced|distributed)",
                                    "--ranks", "2", "--time-budget", "60", "--max-noise", "1e-9", *self.files], stderr=subprocess.PIPE, text=True,
                                   stdout=subprocess.DEVNULL,
                                   env={**os.environ, "TMPDIR": str(temporary), "PATH": f"{self.directory}:{os.environ['PATH']}"})
        deadline = time.monotonic() + 30
        while not any('"good"' in path.read_text() for path in temporary.glob("stages-*/results.json")):
            if time.monotonic() > deadline:
                process.terminate()
            self.assertIsNone(process.poll(), "rank 0 has kept nothing")
            time.sleep(0.01)
        os.kill(int(number.read_text()), signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 2, errors)
        self.assertIn((SMALL, "good"), self.statuses()[1])
        self.assertEqual(list(temporary.iterdir()), [])

    def test_what_a_killed_run_leaves_is_removed_by_the_next(self):
        """Not what lives, and not what only has such a name."""
        if not has_ranks():
            self.skipTest("this build has no MPI")
        temporary = self.directory / "temporary"
        (temporary / "stages-course").mkdir(parents=True)
        environment = {**os.environ, "TMPDIR": str(temporary)}

        def begun():
            known = set(temporary.iterdir())
            process = subprocess.Popen([PROGRAMS / "stages", *self.LONG_ON_RANKS], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       env=environment)
            for line in process.stderr:
                if SMALL in line:
                    break
            return process, set(temporary.iterdir()) - known

        killed, left = begun()
        killed.kill()
        killed.communicate(timeout=LIMIT)
        self.assertEqual(len(left), 1)
        self.assertTrue(next(iter(left)).is_dir(), "nothing was left")
        lives, held = begun()
        self.good("multiply", "--ranks", "2", "-o", self.directory / "c.mtx", "--with", "02_mpi/balanced", "--", SMALL, SMALL,
                  env={"TMPDIR": str(temporary)})
        self.assertEqual(set(temporary.iterdir()), held | {temporary / "stages-course"})
        lives.terminate()
        lives.communicate(timeout=LIMIT)
        self.assertEqual(list(temporary.iterdir()), [temporary / "stages-course"])

    def test_ranks_that_cannot_start(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        words = ["run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2"]
        for resource_, most, said in ((resource.RLIMIT_NOFILE, 26, "`ulimit -n` is 26"), (resource.RLIMIT_FSIZE, 8192, "`ulimit -f` is 8")):
            begin = time.monotonic()
            self.refused(f"--ranks: 2 ranks do not start; .*{said}", *words, limits=lambda: resource.setrlimit(resource_, (most, most)))
            self.assertLess(time.monotonic() - begin, 10)
        # Whatever else it is that keeps them from coming:
        mpirun = self.write("mpirun", "#!/bin/sh\ntrap '' TERM\nsleep 300\n")
        mpirun.chmod(0o755)
        path = f"{self.directory}:{os.environ['PATH']}"
        self.refused("--ranks: 2 ranks do not start; ", *words, env={"PATH": path})

    def test_no_entry_for_the_ranks(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        self.refused("--ranks: none of the entries chosen runs on ranks; `stages list` shows which do", "run", "-m", SMALL, *self.HOST,
                     "--ranks", "2")

    def test_no_shared_memory_for_ranks(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        done = run("run", "-m", SMALL, "--quick", "--op", "spgemm", "--stage", "01,02", "--ranks", "2", *self.files,
                   env={"OMPI_MCA_osc_sm_backing_directory": "/nonexistent"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("terminate", done.stderr)
        self.assertEqual(done.stderr.count("stages: error on rank 0: allocating shared memory"), 1, done.stderr)
        self.assertEqual(self.statuses()[1], {(SMALL, "good")})

    def test_little_shared_memory(self):
        """An entry that it is too little for is skipped, and the others run on all matrices."""
        if not has_ranks() or os.geteuid() != 0:
            self.skipTest("this needs root, and a build with MPI")
        words = shlex.join(map(str, [PROGRAMS / "stages", "run", "-m", SMALL, "gen:stencil:points=5,nx=60", "--quick", "--max-work", "1e9",
                                     "--op", "spgemm", "--stage", "02", "--ranks", "2", *self.files]))
        done = subprocess.run(["unshare", "-m", "bash", "-c", f"mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 99; {words}"],
                              capture_output=True, text=True, timeout=LIMIT)
        if done.returncode in (1, 99):
            self.skipTest("nothing can be mounted here")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(self.json.read_text())["results"]
        skipped = [row for row in rows if row["status"] != "good"]
        self.assertEqual({row["entry"] for row in skipped}, {"02_mpi/shared_window"}, done.stdout)
        self.assertRegex(skipped[0]["reason"], r"bytes of shared memory are needed and /dev/shm has room for")
        self.assertIn(("gen:stencil:points=5,nx=60", "good"), self.statuses()[1])

    def test_ranks_that_end_before_their_time(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        launcher = self.write("launcher", "#!/bin/sh\nexit 9\n")
        launcher.chmod(0o755)
        done = run("run", "-m", SMALL, "--quick", "--op", "spgemm", "--stage", "01,02", "--ranks", "2", *self.files,
                   env={"STAGES_MPIRUN": str(launcher)})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the run on 2 ranks ended with exit code 9", done.stderr)
        context, statuses = self.statuses()
        self.assertEqual(statuses, {(SMALL, "good")})
        self.assertIn("exit code 9", context["errors"])

    def test_without_standard_streams(self):
        """A stream that is closed or full costs no result, and no message goes into a file that took its number."""
        words = shlex.join(map(str, [PROGRAMS / "stages", "run", "-m", SMALL, *self.HOST, *self.files]))
        for where in ("2>&-", "2>/dev/full", "<&- >&- 2>&-", "> /dev/full", "> /dev/full 2>&1", "| true", "2>&1 | true",
                      f"2>> {self.write('long', 'x' * (1 << 20))}", f">> {self.directory / 'long'}"):
            with self.subTest(where):
                shell = f"set -o pipefail; {'ulimit -f 1024;' if 'long' in where else ''} {words} {where}"
                done = subprocess.run(["bash", "-c", shell], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
                self.assertNotIn(done.returncode, (134, -signal.SIGABRT), where)
                self.assertEqual(self.statuses()[1], {(SMALL, "good")}, where)
                self.json.unlink()
                self.csv.unlink()
        done = subprocess.run(["bash", "-c", f"{PROGRAMS / 'stages'} list | head -n 1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=LIMIT)
        self.assertEqual(done.stderr, b"")


class Leavings(Case):
    """What a program writes beside its results is gone when a signal ends it."""

    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir()

    def ended(self, number, pattern, *words, **environment):
        """Starts a command, waits for a temporary file, ends the command; returns what is left in our directories."""
        process = subprocess.Popen([PROGRAMS / "stages", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(self.temporary), **environment},
                                   preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
        deadline = time.monotonic() + LIMIT
        while not list(self.directory.glob(pattern)):
            self.assertIsNone(process.poll(), "it ended without a temporary file")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        process.send_signal(number)
        self.assertEqual(process.wait(timeout=LIMIT), -number)
        return sorted(path.name for path in self.directory.rglob("*") if path != self.temporary)

    def test_files_that_are_being_written(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            left = self.ended(number, "a.mtx.gz.*.tmp", "generate", "gen:uniform:rows=2e5,cols=2e5,per_row=20", "-o", self.directory / "a.mtx.gz")
            self.assertEqual(left, [], number)

    def sleeper(self):
        """A program that takes its time, and says under which number it does."""
        script = self.write("sleeper", f"#!/bin/sh\necho $$ > '{self.directory}/number.new'\n"
                                       f"mv '{self.directory}/number.new' '{self.directory}/number'\nexec sleep 300\n")
        script.chmod(0o755)
        return script

    def require_sleeper_ended(self):
        number = int((self.directory / "number").read_text())
        deadline = time.monotonic() + 10
        while pathlib.Path(f"/proc/{number}").exists():
            self.assertLess(time.monotonic(), deadline, "what it had started goes on")
            time.sleep(0.01)

    def test_results_of_ranks(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        for number in (signal.SIGINT, signal.SIGTERM):
            left = self.ended(number, "number", "run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2",
                              STAGES_MPIRUN=str(self.sleeper()))
            self.assertEqual(left, ["number", "sleeper"])
            self.require_sleeper_ended()
            (self.directory / "number").unlink()

    def test_multiply_by_what_starts_no_rank(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        matrix, product = self.directory / "a.mtx", self.directory / "c.mtx"
        self.good("generate", "gen:eye:n=10", "-o", matrix)
        self.refused("true started no rank that came to its end; name another program", "multiply", "--with", "02_mpi/balanced", "--ranks", "2",
                     matrix, matrix, "-o", product, env={"STAGES_MPIRUN": "true"})
        fails = self.write("fails", "#!/bin/sh\nexit 2\n")
        fails.chmod(0o755)
        self.refused("the run on 2 ranks ended with exit code 2", "multiply", "--with", "02_mpi/balanced", "--ranks", "2", matrix, matrix, "-o", product,
                     env={"STAGES_MPIRUN": str(fails)})

    def test_ranks_that_stand_in_a_queue(self):
        """Who waits for what STAGES_MPIRUN starts is told so."""
        if not has_ranks():
            self.skipTest("this build has no MPI")
        words = ["run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2"]
        with subprocess.Popen([PROGRAMS / "stages", *words], env={**os.environ, "TMPDIR": str(self.temporary), "STAGES_MPIRUN": str(self.sleeper())},
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
            try:
                self.assertRegex(running.stderr.readline(), r"^note: --ranks: \S+sleeper has started no rank yet; Ctrl-C ends the wait$")
            finally:
                running.send_signal(signal.SIGINT)
        self.require_sleeper_ended()

    def test_results_of_ranks_that_outlive_it(self):
        """Rank 0 still writes what it has when it is told to end; nobody waits for that any more."""
        if not has_ranks():
            self.skipTest("this build has no MPI")
        done = self.directory / "done"
        starter = self.write("starter", f"""#!/usr/bin/env bash
trap 'sleep 0.3; echo late > "${{@: -1}}"; touch {done}; exit' TERM
touch '{self.directory}/number'
sleep 20 & wait
""")
        starter.chmod(0o755)
        self.ended(signal.SIGTERM, "number", "run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2",
                   STAGES_MPIRUN=str(starter))
        deadline = time.monotonic() + 10
        while not done.exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_no_place_for_them(self):
        on_ranks = ["run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2"]
        grading = ["grade", "01", next(ROOT.glob("01_cpu_serial/exercises/*.cpp")), "--built", "true"]
        for words in (on_ranks, grading) if has_ranks() else (grading,):
            done = run(*words, env={"TMPDIR": "/nowhere"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("error: TMPDIR=/nowhere: there is no such directory; name another or leave it out", done.stderr)


class Outputs(Case):
    """Results to what is no file of its own."""

    RUN = ["run", "-m", SMALL, "--quick", "--op", "spmv", "--stage", "01"]

    def setUp(self):
        super().setUp()
        self.pipe = self.directory / "pipe"
        os.mkfifo(self.pipe)

    def through_the_pipe(self, *words):
        """What somebody reads from the pipe."""
        with subprocess.Popen(["cat", self.pipe], stdout=subprocess.PIPE, text=True) as reader:
            try:
                self.good(*words)
                return reader.communicate(timeout=LIMIT)[0]
            finally:
                reader.kill()

    def test_a_pipe_gets_all_of_it(self):
        rows = json.loads(self.through_the_pipe(*self.RUN, "--json", self.pipe))["results"]
        self.assertEqual({row["status"] for row in rows}, {"good"})
        self.assertIn("matrix,options,", self.through_the_pipe(*self.RUN, "--csv", self.pipe))
        self.assertIn("%%MatrixMarket", self.through_the_pipe("generate", SMALL, "-o", self.pipe))
        self.assertTrue(self.pipe.is_fifo())

    def test_a_pipe_that_nobody_reads(self):
        self.refused("pipe: nobody reads from this pipe; start its reader first", "generate", SMALL, "-o", self.pipe)

    def test_own_streams(self):
        """A file that the shell has opened gets what is written to the stream beside what else goes there."""
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            said = self.directory / "said"
            with open(said, "w", encoding="utf-8") as file:
                words = [PROGRAMS / "stages", *self.RUN, "--json", name]
                self.assertEqual(subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, timeout=LIMIT).returncode, 0)
            text = said.read_text()
            self.assertEqual({row["status"] for row in json.JSONDecoder().raw_decode(text)[0]["results"]}, {"good"}, name)
            self.assertRegex(text.splitlines()[-1], r"^\d good, 0 wrong", name)
        self.refused("/dev/fd/9: cannot be written", "generate", SMALL, "-o", "/dev/fd/9")
        for words in (["generate", "gen:eye:n=2"], ["multiply", "gen:eye:n=2", "gen:eye:n=2", "--with", "01_cpu_serial/gustavson_dense"]):
            with open(said, "w", encoding="utf-8") as file:
                done = subprocess.run([PROGRAMS / "stages", *words, "-o", "/dev/stdout"], stdout=file, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("/dev/stdout: 2 x 2", done.stderr)
            self.assertEqual(json.loads(self.good("info", said, "--json").stdout)["nnz"], 2)
            done = subprocess.run(f"{shlex.join(map(str, [PROGRAMS / 'stages', *words, '-o', '/dev/stdout']))} 2>&-", shell=True, stdout=subprocess.PIPE, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, "no result is lost for a remark")


class Processes(Case):
    """Threads and processes that cannot be had, and starters of ranks that are none."""

    @staticmethod
    def few(count):
        """So many processes and threads in all. The limit does not hold for root, so this becomes nobody."""
        def limits():
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
        return limits

    def test_without_threads(self):
        self.assertIn("4,000 x 4,000", self.good("info", "gen:uniform:rows=4000,cols=4000,nnz=20000", limits=self.few(1)).stdout)
        self.refused(r"no thread can be had: .*; close other programs, or raise `ulimit -u`", "run", "-m", SMALL, "--op", "spmv",
                     "--stage", "01", limits=self.few(1))

    def test_without_threads_for_the_executor(self):
        on_the_executor = [entry for entry in entries(operation="spmv") if entry.startswith("03_")]
        if not on_the_executor or os.geteuid() != 0:  # else the user's other processes count
            self.skipTest("this needs root, and a build with CUDA")
        done = run("run", "-m", SMALL, "--filter", on_the_executor[0], limits=self.few(2), env={"STAGES_WORKERS": "4"})
        self.assertRegex(done.stdout, "FAILED: the executor can have 0 of the [1-4] threads it needs .*; .* or lower STAGES_WORKERS")

    def test_without_processes(self):
        if os.geteuid() != 0 or not has_ranks():
            self.skipTest("this needs root, and a build with MPI")
        self.refused("cannot start mpirun: .*; close other programs, or raise `ulimit -u`", "run", "-m", SMALL, "--op", "spgemm",
                     "--stage", "02", "--ranks", "2", limits=self.few(2))

    def starter(self, script):
        path = self.write(f"starter{len(script)}", "#!/bin/sh\n" + script)
        path.chmod(0o755)
        return str(path)

    def test_ranks_that_do_not_come(self):
        if not has_ranks():
            self.skipTest("this build has no MPI")
        no_rank = r"left no results in \S+: either \S+ starts no ranks \(name another in STAGES_MPIRUN\), or rank 0 ran on another machine"
        killed = r"the run on 2 ranks was ended by SIGKILL \(Killed\), as the system does where memory runs out; take a smaller matrix"
        # mpirun says 128 + the signal of a rank.
        for program, said in (("true", no_rank), ("echo", no_rank), ("/nowhere", "there is no program /nowhere"),
                              (str(ROOT), "there is no program "), ("/etc/passwd", "there is no program /etc/passwd"),
                              (self.starter("exit 137\n"), killed), (self.starter("kill -9 $$\n"), killed),
                              (self.starter("exit 9\n"), "ended with exit code 9")):
            with self.subTest(program):
                self.refused(said, "run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2", env={"STAGES_MPIRUN": program})
        a = self.write("a.mtx", MATRIX)
        entry = next(e for e in entries(operation="spgemm") if e.startswith("02_mpi/"))
        self.refused(killed, "multiply", "--with", entry, a, a, "-o", self.directory / "c.mtx", "--ranks", "2",
                     env={"STAGES_MPIRUN": self.starter("exit 137\n")})


class Tour(Case):
    """`run` without a matrix: every step, and a table of them."""

    def tour(self, *words, code=0, program="stages", **options):
        out = self.directory / "out.json"
        done = run("run", *words, "--json", out, program=program, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(out.read_text()), done

    def test_every_step_has_a_line(self):
        results, done = self.tour()
        listed = json.loads(run("list", "--json").stdout)
        steps = sorted({e["stage"] for e in listed["entries"] if not e["peer"]} | {x["name"] for x in listed["left_out"] if x["name"][0].isdigit()})
        self.assertEqual([line["step"] for line in results["steps"]], steps)
        self.assertEqual([step[:2] for step in steps], [f"{k:02}" for k in range(1, 9)])
        here = {e["stage"] for e in listed["entries"]}
        records = [line.split("\t") for line in (ROOT / "data/records.tsv").read_text().splitlines() if line[:1].isdigit()]
        recorded = {record[0]: float(record[1]) for record in records}
        self.assertTrue(set(steps) <= {entry.split("/")[0] for entry in recorded})
        for line in results["steps"]:
            if line["step"] not in here:
                self.assertTrue(line["missing"], line)
                continue
            self.assertEqual(line["missing"], "", line)
            for end in ("plainest", "best"):
                rows = [r for r in results["results"] if r["entry"] == f"{line['step']}/{line[end]['entry'].split(' on ')[0]}"
                        and r["problem"]["matrix"] == line["matrix"] and r["status"] == "good"]
                self.assertTrue(rows, (line, end))
                timed = [r["seconds"]["run"]["median"] for r in rows if "seconds" in r]
                if timed:
                    self.assertIn(line[end]["seconds"], timed)
                else:
                    self.assertEqual((line[end]["outcome"], line[end]["seconds"]), ("checked", None))
                # Which entry is best here depends on the machine; one that is new has no record yet.
                self.assertEqual(line[end]["recorded_seconds"], recorded.get(rows[0]["entry"]), line)
            if line["best"]["seconds"]:
                fastest = min(r["seconds"]["run"]["median"] for r in results["results"]
                              if r["entry"].startswith(line["step"] + "/") and r["problem"]["matrix"] == line["matrix"]
                              and r["problem"]["operation"] == line["options"].split(",")[0] and "seconds" in r)
                self.assertEqual(line["best"]["seconds"], fastest)
        # What kernels fetch is counted of some entry of each of their steps, where they run on the executor.
        if "cpu)" in run("--version").stdout:
            counted = {r["entry"].split("/")[0] for r in results["results"] if r.get("metrics", {}).get("fetched_bytes", {}).get("value", 0) > 0}
            self.assertEqual(sorted(counted), [step for step in steps if step in here and step[:2] >= "03"])
        table = done.stdout[done.stdout.index("\nThe steps\n") + 1:].split("\n\n")[0].splitlines()[2:]
        self.assertEqual([line.split()[0] for line in table], steps)
        for row in results["results"]:
            if not row["peer"]:
                self.assertEqual(row["status"], "good", row)  # nothing is asked that cannot be done

    def test_part_of_it(self):
        results, _ = self.tour("--stage", "03,04", "--filter", "dense")
        self.assertEqual([line["step"] for line in results["steps"] if not line["missing"]], ["03_cuda_naive"])
        self.assertEqual({r["entry"].split("/")[1] for r in results["results"]}, {"dense_row_major", "dense_transposed", "dense_padded"})
        results, done = self.tour("--op", "spmv", program="01_cpu_serial")
        self.assertEqual({r["problem"]["operation"] for r in results["results"]}, {"spmv"})
        self.assertEqual([line["step"] for line in results["steps"]], ["01_cpu_serial"])
        self.refused("nothing that --op, --stage and --filter leave", "run", "--stage", "03", "--op", "spmm")
        self.refused("nothing that --op, --stage and --filter leave", "run", "--stage", "vendor")
        results, _ = self.tour("--stage", "06", "--filter", "row_per_thread|chain")  # a chain is another problem than a stream
        self.assertEqual([(line["plainest"]["entry"], line["best"]["entry"]) for line in results["steps"] if not line["missing"]], [("row_per_thread",) * 2])

    def test_ranks_get_the_same_limits(self):
        if "02_mpi/balanced" not in entries():
            self.skipTest("this build has no MPI")
        results, _ = self.tour("--stage", "02", "--type", "f64", "--filter", "balanced", "--max-work", "1e9")
        self.assertEqual({r["problem"]["type"] for r in results["results"]}, {"f64"})
        self.assertLessEqual({1, 2}, {r["ranks"] for r in results["results"]})
        self.assertEqual({r["entry"] for r in results["results"]}, {"02_mpi/balanced"})
        results, done = self.tour("--stage", "02,03", code=2, env={"STAGES_MPIRUN": "false"})  # ranks that end at once
        missing = {line["step"]: line["missing"] for line in results["steps"]}
        self.assertIn("left no results", missing["02_mpi"])
        self.assertEqual(missing["03_cuda_naive"], "")
        results, done = self.tour("--stage", "01,02", "--op", "spgemm", "--filter", "adaptive|balanced", env={"STAGES_MPIRUN": "/nowhere/mpirun"})
        line = next(line for line in results["steps"] if line["step"] == "02_mpi")
        self.assertIn("there is no program /nowhere/mpirun", line["missing"])
        self.assertIn("there is no program /nowhere/mpirun", done.stdout)

    def test_options_that_need_a_matrix(self):
        for words in (["--mode", "chain"], ["-b", "data:d2"], ["--n-cols", "8"], ["--ranks", "1,2"], ["--beta", "1"], ["--index-base", "0"]):
            self.refused("go with -m", "run", *words)


class Multiply(Case):
    def setUp(self):
        super().setUp()
        self.a = self.write("a.mtx", MATRIX)
        self.c = self.directory / "c.mtx"

    def multiply(self, entry, b, *words):
        done = self.good("multiply", "--with", entry, self.a, b, "-o", self.c, *words)
        self.assertRegex(done.stdout, r"c\.mtx: 3 x ")
        self.assertIn("checked", done.stdout)
        lines = self.c.read_text().splitlines()
        return lines[0], [tuple(map(float, line.split())) for line in lines[1:] if not line.startswith("%")]

    def test_sparse_times_sparse(self):
        multiplied = 0
        for entry in entries(operation="spgemm"):
            done = run("multiply", "--with", entry, self.a, self.a, "-o", self.c)
            if done.returncode == 2 and f"{entry}: needs " in done.stderr:
                continue
            multiplied += 1
            banner, lines = self.multiply(entry, self.a)
            self.assertEqual(banner, "%%MatrixMarket matrix coordinate real general")
            self.assertEqual(lines[0][:2], (3, 3))
            # [2 0 -1; 0 1.5 0; 4 0 0] squared
            self.assertEqual(sorted(e for e in lines[1:] if e[2] != 0), [(1, 3, -2), (2, 2, 2.25), (3, 1, 8), (3, 3, -4)],
                             entry)
        self.assertGreaterEqual(multiplied, 3)

    def test_times_a_vector(self):
        banner, lines = self.multiply(host_entry("spmv"), self.write("x.mtx", VECTOR))
        self.assertEqual(banner, "%%MatrixMarket matrix array real general")
        self.assertEqual(lines, [(3, 1), (-1,), (3,), (4,)])

    def test_times_a_dense_matrix(self):
        banner, lines = self.multiply(host_entry("spmm"), self.write("b.mtx", DENSE), "--type", "f32")
        self.assertEqual(lines, [(3, 2), (-1,), (3,), (4,), (2,), (7.5,), (16,)])

    def test_the_operation_must_match(self):
        x, b = self.write("x.mtx", VECTOR), self.write("b.mtx", DENSE)
        out = ["-o", self.c]
        self.refused("is a sparse matrix, which makes the product sparse times sparse",
                     "multiply", "--with", host_entry("spmv"), self.a, self.a, *out)
        self.refused("is a dense matrix", "multiply", "--with", host_entry("spgemm"), self.a, x, *out)
        self.refused("more than one column", "multiply", "--with", host_entry("spmv"), self.a, b, *out)

    def test_compressed(self):
        packed = self.directory / "c.mtx.gz"
        self.good("multiply", "--with", host_entry("spgemm"), self.a, self.a, "-o", packed)
        self.assertTrue(gzip.open(packed, "rt").readline().startswith("%%MatrixMarket"))

    def test_on_ranks(self):
        """By --ranks, and under mpirun, entries for several ranks and others."""
        on_ranks = [entry for entry in entries(operation="spgemm") if entry.startswith(("02_mpi/", "08_spgemm_multigpu/multi_"))]
        if not on_ranks:
            self.skipTest("this build has no MPI")
        _, alone = self.multiply(host_entry("spgemm"), self.a)
        for entry in on_ranks:
            _, lines = self.multiply(entry, self.a, "--ranks", "3")
            self.good("multiply", "--ranks", "2", "-o", self.c, "--with", entry, "--", self.a, self.a)
            self.assertEqual(sorted(lines), sorted(alone), entry)
        (self.directory / "--ranks").write_text(MATRIX)  # a file, where it stands behind --
        self.good("multiply", "--ranks", "2", "-o", self.c, "--with", on_ranks[0], "--", "--ranks", "--ranks", cwd=self.directory)
        self.refused("runs on one process", "multiply", "--with", host_entry("spgemm"), self.a, self.a, "-o", self.c, "--ranks=2")
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for entry in (on_ranks[0], host_entry("spgemm")):
            self.c.unlink()
            done = subprocess.run(["mpirun", "-q", "--oversubscribe", "-n", "2", PROGRAMS / "stages", "multiply", "--with", entry,
                                   self.a, self.a, "-o", self.c], capture_output=True, text=True, timeout=LIMIT, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("c.mtx: 3 x 3"), 1, done.stdout)
        bad = self.write("bad.mtx", Kept.BAD)
        done = run("multiply", "--with", on_ranks[0], bad, bad, "-o", self.c, "--ranks", "2")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("bad.mtx:4"), 1, done.stderr)

    def test_sums_beyond_the_range(self):
        huge = self.write("huge.mtx", "%%MatrixMarket matrix array real general\n2 20\n" + "3e38\n" * 40)
        x = self.write("x.mtx", "%%MatrixMarket matrix array real general\n20 1\n" + "1\n" * 20)
        words = ("multiply", "--with", host_entry("spmv"), huge, x, "-o", self.c)
        self.refused("no result can be judged: .*--type f64.*--no-check", *words, "--type", "f32")
        self.assertIn("not checked", self.good(*words, "--type", "f32", "--no-check").stdout)
        self.assertIn(", checked", self.good(*words, "--type", "f64").stdout)
        done = run("run", "-m", huge, "--op", "spmv", "--stage", "01", "--quick")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("no result can be judged", done.stdout)

    def test_too_little_memory(self):
        self.refused("--max-memory", "multiply", "--with", host_entry("spgemm"), self.a, self.a, "-o", self.c,
                     "--max-memory", "1e-12")


class Faults(Case):
    """What a wrong result looks like, by a program whose entries are wrong."""

    def run_faulty(self, *words):
        return run(*words, program="faulty_entries")

    def test_wrong_result(self):
        out = self.directory / "out.json"
        done = self.run_faulty("run", "-m", SMALL, "--quick", "--filter", "zero", "--json", out)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("WRONG: ", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], "0 good, 1 wrong, 0 failed, 0 skipped")
        row = json.loads(out.read_text())["results"][0]
        self.assertEqual(row["status"], "wrong")
        self.assertIn("element", row["reason"])
        self.assertNotIn("seconds", row)

    def test_failure(self):
        done = self.run_faulty("run", "-m", SMALL, "--quick", "--filter", "throws|zero")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the device is on fire", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], "0 good, 1 wrong, 1 failed, 0 skipped")

    def test_an_error_of_an_entry_is_its_row(self):
        out = self.directory / "out.json"
        done = self.run_faulty("run", "-m", SMALL, "--quick", "--filter", "refuses|zero", "--json", out)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = {row["entry"]: (row["status"], row["reason"]) for row in json.loads(out.read_text())["results"]}
        self.assertEqual(rows["faulty/refuses"], ("failed", "a call of the library failed; mend it"))
        self.assertEqual(rows["faulty/zero"][0], "wrong")

    def test_wrong_product_is_not_written(self):
        a, x, y = self.write("a.mtx", MATRIX), self.write("x.mtx", VECTOR), self.directory / "y.mtx"
        done = self.run_faulty("multiply", "--with", "faulty/zero", a, x, "-o", y)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was written", done.stderr)
        self.assertFalse(y.exists())
        done = self.run_faulty("multiply", "--no-check", "--with", "faulty/zero", a, x, "-o", y)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(y.exists())

    def test_left_out_stages_are_named(self):
        self.assertIn("99_missing: needs a part that is not there", self.run_faulty("list").stdout)
        self.refused("--stage 99: left out of this build: it needs a part that is not there",
                     "run", "-m", SMALL, "--stage", "99", program="faulty_entries")


class Terminal(Case):
    """Progress is rewritten in place and the table is coloured on a terminal, and only there."""

    def on_terminal(self, *words, **environment):
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAMS / "stages", *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                                   env={**os.environ, "TERM": "xterm", **environment})
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        os.close(master)
        self.assertEqual(process.wait(LIMIT), 0, text)
        return text.decode()

    def test_progress_and_colour(self):
        # As much is copied as takes longer than one line in place stays.
        text = self.on_terminal("run", "-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", STAGES_COPY_BYTES="200000000")
        self.assertIn("\r\033[K[1/", text)
        self.assertIn("\033[1m", text)
        start = text.index("\033[1m" + SMALL)
        self.assertTrue(text[:start].endswith("\r\033[K"), text)  # the line in place is gone
        table = text[start:]
        self.assertNotIn("\r\033[K", table)

    def test_no_color(self):
        text = self.on_terminal("run", "-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", NO_COLOR="1")
        self.assertNotIn("\033[1m", text)
        text = self.on_terminal("run", "-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", TERM="dumb")
        self.assertNotIn("\033", text)


class InfoAndGenerate(Case):
    def test_info_of_the_machine(self):
        text = self.good("info").stdout
        self.assertRegex(text, r"copy_bandwidth_bytes_per_second +[\d.]+ [GM]B/s\n")
        facts = json.loads(self.good("info", "--json").stdout)
        for name in ("cpu", "cpus", "cpu_cache_bytes", "gpu", "memory", "copy_bandwidth_bytes_per_second", "compiler"):
            self.assertIn(name, facts)
            self.assertIn(f"  {name} ", text)
        self.assertGreater(float(facts["copy_bandwidth_bytes_per_second"]), 1e8)
        self.assertNotIn("date", facts)

    def test_info(self):
        text = self.good("info", "data:fem").stdout
        for word in ("non-zeros", "symmetr", "C = A A", "products", "█"):
            self.assertIn(word, text)

    def test_many_empty_columns_take_no_memory(self):
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        wide = self.write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n1 2147483647 1\n1 2147483647 3\n")
        none = self.write("none.mtx", "%%MatrixMarket matrix array real general\n0 2147483647\n")
        for source, entries_there in ((wide, 1), (none, 0), ("gen:uniform:rows=1,cols=2147483647,nnz=1", 1)):
            info = json.loads(self.good("info", source, "--json", limits=limits).stdout)
            self.assertEqual((info["cols"], info["nnz"], info["empty_cols"]), (2147483647, entries_there, 2147483647 - entries_there))
            self.assertEqual(info["square"]["products"], entries_there)

    def test_many_empty_rows_take_their_row_pointers_and_no_more(self):
        if "-fsanitize" in sanitizers():
            self.skipTest("AddressSanitizer needs the address space")

        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        head = "%%MatrixMarket matrix coordinate real general\n"
        for rows, cols in ((60000000, 1), (60000000, 60000000)):  # 480 MB of row pointers
            many = self.write("many.mtx", head + f"{rows} {cols} 2\n3 1 1\n1 1 1\n")
            info = json.loads(self.good("info", many, "--json", limits=limits).stdout)
            self.assertEqual((info["rows"], info["empty_rows"], info["empty_cols"]), (rows, rows - 2, cols - 1))
            self.assertEqual((info["square"]["rows"], info["square"]["products"]), (rows, 2) if cols > 1 else (1, 2))
        self.refused(r"more\.mtx:2: 2147483647 rows for 1 entries take 17\.18 GB, and the limit is 1\.00 GB where most rows are empty",
                     "info", self.write("more.mtx", head + "2147483647 1 1\n1 1 1\n"), limits=limits)
        self.refused(r"none\.mtx:2: 2147483647 rows for 0 entries", "info",
                     self.write("none.mtx", "%%MatrixMarket matrix array real general\n2147483647 0\n"), limits=limits)
        self.refused(r"many\.mtx:2: 130000000 rows for 1 entries take 1\.04 GB", "info", self.write("many.mtx", head + "130000000 1 1\n1 1 1\n"))
        self.refused("where most rows are empty", "info", "gen:uniform:rows=130000000,cols=1,nnz=1")

    def test_a_run_on_many_empty_rows_is_skipped_before_it_takes_memory(self):
        if "-fsanitize" in sanitizers():
            self.skipTest("AddressSanitizer needs the address space")

        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

        many = self.write("many.mtx", "%%MatrixMarket matrix coordinate real general\n100000000 1 1\n1 1 1\n")
        done = run("run", "-m", many, "--quick", "--stage", "01", "--all", limits=limits)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"needs 7\.60 GB of memory, the limit is 1\.00 GB where most rows or columns are empty \(--max-memory\)")

    def test_the_hypersparse_lesson_of_step_1_is_multiplied(self):
        """Ten million rows, mostly empty, in a spec: whoever writes it wants them."""
        if "-fsanitize" in sanitizers():
            self.skipTest("takes too long")
        done = self.good("run", "-m", "gen:hypersparse:n=1e7,nnz=1e5", "--op", "spgemm", "--time-budget", "0.05", "--filter", "01_cpu_serial/hypersparse", "--all")
        self.assertRegex(done.stdout, r"(?m)^1 good, 0 wrong, 0 failed, 0 skipped$")

    def test_a_wide_second_factor_is_refused_before_it_takes_memory(self):
        banner = "%%MatrixMarket matrix coordinate real general\n"
        one, wide = self.write("one.mtx", banner + "1 1 1\n1 1 2\n"), self.write("wide.mtx", banner + "1 730000000 1\n1 730000000 3\n")
        self.refused(r"wide.mtx: 1 x 730000000 with 1 entries needs 17\.5 GB of memory", "multiply", one, wide, "--with", "01_cpu_serial/gustavson_dense",
                     "-o", self.directory / "c.mtx")
        done = run("run", "-m", one, "-b", wide, "--op", "spgemm", "--quick", "--stage", "01", "--all")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"wide.mtx: 1 x 730000000 with 1 entries needs .* GB of memory")

    def test_a_run_on_many_empty_columns_is_skipped_in_time(self):
        if "-fsanitize" in sanitizers():
            self.skipTest("AddressSanitizer needs the address space")

        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

        none = self.write("none.mtx", "%%MatrixMarket matrix array real general\n0 2147483647\n")
        out = self.directory / "out.json"
        for source in ("gen:uniform:rows=1,cols=2147483647,nnz=1", none):
            begin = time.monotonic()
            done = run("run", "-m", source, "--json", out, limits=limits)
            self.assertEqual(done.returncode, 77, f"{source}\n{done.stdout}\n{done.stderr}")
            self.assertLess(time.monotonic() - begin, 20)
            rows = json.loads(out.read_text())["results"]
            self.assertEqual({row["status"] for row in rows}, {"skipped"})
            self.assertEqual({row["problem"]["operation"] for row in rows}, {"spmv", "spmm", "spgemm"})
            reasons = {row["reason"] for row in rows if row["problem"]["operation"] == "spgemm"}
            self.assertEqual(len(reasons), 1, reasons)
            self.assertRegex(reasons.pop(), r"[01] x 2147483647 with [01] entries needs 163 GB of memory, the limit is \d\.\d\d GB where most rows or "
                             r"columns are empty \(--max-memory\)")
        if entries(stage="02_mpi"):
            done = run("run", "-m", source, "--op", "spgemm", "--stage", "02", "--ranks", "2", "--json", out, limits=limits)
            self.assertEqual(done.returncode, 77, f"{done.stdout}\n{done.stderr}")
            self.assertEqual({row["ranks"] for row in json.loads(out.read_text())["results"]}, {2})

    def test_info_json(self):
        a = self.write("a.mtx", MATRIX)
        info = json.loads(self.good("info", a, "--json").stdout)
        self.assertEqual((info["rows"], info["cols"], info["nnz"]), (3, 3, 4))
        self.assertEqual(info["square"]["products"], 2 + 1 + 1 + 2)
        self.assertTrue(info["square"]["nnz_exact"])
        self.assertTrue(info["structurally_symmetric"])
        self.assertFalse(info["numerically_symmetric"])
        self.assertEqual(sum(c["rows"] for c in info["row_length_histogram"]), 3)

    def test_generated_file_is_the_matrix(self):
        for name in ("g.mtx", "g.mtx.gz"):
            path = self.directory / name
            self.good("generate", "gen:rmat:scale=8,edge_factor=4", "-o", path)
            made = json.loads(self.good("info", path, "--json").stdout)
            spec = json.loads(self.good("info", "gen:rmat:scale=8,edge_factor=4", "--json").stdout)
            made["matrix"] = spec["matrix"] = ""
            self.assertEqual(made, spec)


class Lens(Case):
    """stages lens. How it counts is tested in tests/lens; here, what the command makes of it."""

    MATRIX = "gen:uniform:rows=500,cols=500,nnz=4000"
    LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

    def setUp(self):
        super().setUp()
        if entries(stage="05_cuda_csr") == [] or "cpu)" not in run("--version").stdout:
            self.skipTest("no kernels on the executor")

    def counts(self, *words):
        """What --json holds, by entry, and what was printed."""
        path = self.directory / "lens.json"
        shown = self.good("lens", *words, "--json", path).stdout
        return {entry["entry"]: entry for entry in json.loads(path.read_text())["entries"]}, shown

    def test_each_line_and_its_sums(self):
        name = "05_cuda_csr/thread_per_row"
        counts, shown = self.counts(name, "-m", self.MATRIX)
        (kernel,) = counts[name]["kernels"]
        self.assertEqual(kernel["name"], "thread_per_row<float>")
        for counter in (self.LOADS, self.SECTORS):
            lines = [line["counters"][counter] for line in kernel["lines"] if counter in line["counters"]]
            self.assertEqual(sum(lines), kernel["counters"][counter])
            self.assertEqual(counts[name]["counters"][counter], kernel["counters"][counter])
        source = (ROOT / "05_cuda_csr/3_thread_per_row.cu").read_text().splitlines()
        for line in kernel["lines"]:
            self.assertEqual(line["file"], "05_cuda_csr/3_thread_per_row.cu")
            self.assertIn(f"{line['line']:>4} | {source[line['line'] - 1]}", shown)
        # A row of y is stored once, by warps of neighbours: 500 threads are 16 requests, of four sectors but the last.
        (store,) = [line["counters"] for line in kernel["lines"] if "global_st_lanes" in line["counters"]]
        self.assertEqual((store["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"], store["global_st_lanes"]), (16, 500))
        self.assertEqual(store["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"], 63)

    def test_a_run_says_what_a_checked_kernel_fetches(self):
        """The numbers of `stages lens`, in the row and in its metrics; what runs on the host has none."""
        name, path = "03_cuda_naive/dense_row_major", self.directory / "run.json"
        counts, looked = self.counts(name, "-m", self.MATRIX)
        bound = counts[name]["at_least"]
        shown = self.good("run", "-m", self.MATRIX, "--op", "spmv", "--stage", "01,03", "--time-budget", "0.01", "--json", path).stdout
        rows = {row["entry"]: row for row in json.loads(path.read_text())["results"]}
        metrics = {key: metric["value"] for key, metric in rows[name]["metrics"].items()}
        for metric, key in (("sectors_a_request", "sectors_a_request"), ("fetched_bytes", "fetched_bytes"), ("at_least_seconds", "seconds")):
            self.assertAlmostEqual(metrics[metric] / bound[key], 1, places=3)
        self.assertGreater(bound["seconds"], 1e-6)
        (line,) = [line for line in looked.splitlines() if "at least" in line and "sectors a request" in line]
        self.assertIn(f"{name}  checked on the executor, not timed; {line}", re.sub(" {2,}", "  ", shown))
        self.assertNotIn("at_least_seconds", rows["01_cpu_serial/csr_spmv"]["metrics"])

    def test_two_entries_side_by_side(self):
        names = ["05_cuda_csr/thread_per_row", "05_cuda_csr/warp_per_row"]
        counts, shown = self.counts(names[0], "--against", names[1], "-m", self.MATRIX)
        self.assertEqual(list(counts), names)
        table = shown[shown.rindex(names[0]):].splitlines()
        self.assertEqual(table[0].split(), names)
        self.assertEqual(table[1].split(), ["global", "loads", *(f"{counts[n]['counters'][self.LOADS]:,}" for n in names)])

    def test_all_lines_of_a_file_are_in_order(self):
        shown = self.good("lens", "05_cuda_csr/thread_per_row", "-m", self.MATRIX, "--all-lines").stdout
        numbers = [int(n) for n in re.findall(r"(\d+) \| ", shown)]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_every_entry_can_be_looked_at(self):
        """Each has kernels whose accesses are counted, at a line of a file that is there."""
        for name in entries(peer=False):
            if re.match("0[3-8]_", name) and "/multi_" not in name:
                counts, _ = self.counts(name, "-m", "gen:fixed:n=256,per_row=8", "--n-cols", 8)
                lines = [line for kernel in counts[name]["kernels"] for line in kernel["lines"]]
                self.assertGreater(len(lines), 0, name)
                for line in lines:
                    self.assertTrue((ROOT / line["file"]).is_file(), (name, line))

    def rows(self, *words):
        """What the table beside the source holds: (kernel, access, requests, lanes, takes, source)."""
        found, kernel, source = [], "", ""
        for line in self.good("lens", *words).stdout.splitlines():
            if head := re.match(r"(\S.*): \d+ launch", line):
                kernel = head.group(1)
            row = re.match(r"  ((?:global|shared) \w+) +\d+ B +([\d,]+) +([\d.]+) +([\d.]+) +[\d.]+ +(?:\d+ %)? +(\d*) +\|(.*)$", line)
            if row:
                access, requests, lanes, takes, number, text = row.groups()
                source = text if number else source
                found.append({"kernel": kernel, "access": access, "requests": int(requests.replace(",", "")), "lanes": float(lanes), "takes": float(takes), "source": source})
        return found

    # What the pages of the steps answer to their questions: page, words around the number, the command's, whose line and access, and
    # which number of it.
    ANSWERS = (
        ("03_cuda_naive/README.md", r"row by row (\S+) sectors", "03_cuda_naive/dense_row_major -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"column by column (\S+)\. With", "03_cuda_naive/dense_transposed -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"With 4 columns (\S+):", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=4,nnz=512", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: (\S+), ", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=1,nnz=256", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: \S+, (\S+) and", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=2,nnz=512", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: \S+, \S+ and (\S+)\. ", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=8,nnz=512", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"`dense_padded` takes (\S+), too", "03_cuda_naive/dense_padded -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"The load of x takes (\S+):", "03_cuda_naive/dense_padded -m gen:fixed:n=256,zeros=0.8", "x[j]", "global load", "takes"),
        ("04_cuda_shared/README.md", r"Rung 1's shared loads take (\S+):", "04_cuda_shared/shared_memory -m gen:fixed:n=64,zeros=0.8", "", "shared load", "takes"),
        ("04_cuda_shared/README.md", r"The store of `partial\[lane\]\[warp\]` takes (\S+) as well", "04_cuda_shared/shared_vector_and_row -m gen:fixed:n=64,zeros=0.8", "partial[lane][warp]", "shared store", "takes"),
        *(("05_cuda_csr/README.md", words, f"05_cuda_csr/{entry} -m gen:uniform:n=5000,per_row=4", "values", "global load", column) for words, entry, column in (
            (r"with a warp a row (\S+) lanes", "full_warp_per_row", "lanes"), (r"with a warp a row \S+ lanes and (\S+) sectors", "full_warp_per_row", "takes"),
            (r"with a thread a row (\S+) lanes", "thread_per_row", "lanes"), (r"wait for the longest\) and (\S+) sectors", "thread_per_row", "takes"),
            (r"`warp_per_row` (\S+) lanes", "warp_per_row", "lanes"), (r"`warp_per_row` \S+ lanes and (\S+) sectors", "warp_per_row", "takes"),
            (r"In `balanced_shares` (\S+) lanes load", "balanced_shares", "lanes"))),
        ("05_cuda_csr/README.md", r"side by side, and (\S+) add up", "05_cuda_csr/balanced_shares -m gen:uniform:n=5000,per_row=4", "", "shared load", "lanes"),
        *(("06_cuda_register/README.md", words, f"06_cuda_register/{entry} -m gen:fixed:n=256,zeros=0.8", source, access, "takes") for words, entry, source, access in (
            (r"What it counts</summary>(\S+) and", "packed_shares", "", "shared load"), (r"What it counts</summary>\S+ and (\S+)\. ", "bank_order", "", "shared load"),
            (r"`vector_batches`: (\S+);", "vector_batches", "", "shared load"), (r"(\d+) sectors a load, not", "vector_batches", "a.values", "global load"),
            (r"sectors a load, not (\d+)\.", "packed_shares", "value[s]", "global load"))),
        *(("07_spmm/notes.md", words, f"07_spmm/warp_per_row -m gen:uniform:n=1000,per_row=8 --n-cols {n}", "from[u * kWarp]", "global load", column) for words, n, column in (
            (r"\| 31 \| \S+ \| (\S+) \|", 31, "lanes"), (r"\| 31 \| \S+ \| \S+ \| (\S+) \|", 31, "takes"), (r"\| 31 \| (\S+) \|", 31, "requests"),
            (r"\| 32 \| \S+ \| \S+ \| (\S+) \|", 32, "takes"), (r"\| 33 \| .* \| 32 and 1 \| (\S+) and", 33, "takes"),
            (r"\| 33 \| .* \| 32 and 1 \| \S+ and (\S+) \|", 33, "takes"))),
        *(("08_spgemm_multigpu/notes.md", rf"\| `{matrix}` \| {words}", f"08_spgemm_multigpu/hash_warp_per_row -m {matrix}", source, access, column)
          for matrix in ("gen:uniform:n=1000,per_row=8", "gen:stencil:points=27,nx=8") for words, source, access, column in (
            (r"\d+ \| [^|]* \| (\S+) \|", "of_a * values[q]", "global load", "requests"),
            (r"\d+ \| [^|]* \| \S+ \| (\S+) \|", "atomicCAS(", "shared atomic", "requests of multiply_rows"),
            (r"\d+ \| [^|]* \| \S+ \| \S+ \| [\d.]+ \| (\S+) \|", "atomicAdd(&values[slot]", "shared atomic", "requests of multiply_rows"))),
    )

    def test_answers_of_the_lessons(self):
        """The numbers with which the pages answer their questions to the lens."""
        seen = {}
        for page, words, command, source, access, column in self.ANSWERS:
            with self.subTest(page=page, words=words):
                stated = re.search(words, " ".join((ROOT / page).read_text().split()))
                self.assertTrue(stated, "the page says nothing of the kind")
                number = stated.group(1).replace(",", "")
                if command not in seen:
                    seen[command] = self.rows(*command.split())
                rows = [row for row in seen[command] if source in row["source"] and row["access"] == access]
                column, _, kernel = column.partition(" of ")
                if column == "requests" and kernel:
                    counted = {str(sum(row["requests"] for row in rows if row["kernel"].startswith(kernel)))}
                elif column == "requests":
                    counted = {str(row["requests"]) for row in rows}
                else:
                    digits = len(number.partition(".")[2])
                    counted = {f"{row[column]:.{digits}f}" for row in rows}
                self.assertIn(number, counted, rows)

    def test_as_nsight_compute_counted(self):
        """What ncu counted on an H200 of kernels whose work does not go by the device."""
        record = json.loads((ROOT / "results/nvidia-h200/counters_spmm.json").read_text())
        for name, apart in (("07_spmm/warp_per_row", 0), ("07_spmm/split_rows", 0.001)):
            (case,) = [c for c in record["cases"] if (c["entry"], c["matrix"], c["options"]) == (name, "gen:twin:arxiv", "N = 32")]
            counts, _ = self.counts(name, "-m", "gen:twin:arxiv", "--n-cols", 32)
            for counter, recorded in ((self.LOADS, case["load_requests"]), (self.SECTORS, case["load_sectors"])):
                self.assertLessEqual(abs(counts[name]["counters"][counter] / recorded - 1), apart, (name, counter))

    def test_races(self):
        """None in a step; as text, JSON and a page."""
        name, data, page = "05_cuda_csr/balanced", self.directory / "races.json", self.directory / "races.html"
        shown = self.good("lens", name, "-m", self.MATRIX, "--races", "--json", data, "--html", page).stdout
        self.assertEqual(shown, f"{name}: no race\n")
        self.assertEqual(json.loads(data.read_text())["entries"], [{"entry": name, "races": [], "problem": None}])
        self.assertIn("<p>No race.</p>", page.read_text())

    def test_races_without_room(self):
        """Where the room is used up, what was found until then is kept, and the line is said, without the machine's paths."""
        data = self.directory / "races.json"
        done = run("lens", "03_cuda_naive/dense_row_major", "-m", "gen:fixed:n=512,zeros=0.8", "--races", "--json", data, env={"STAGES_RACES_MEMORY": "1"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^stages: error: 03_cuda_naive/dense_row_major: only a part was looked at: "
                         r"03_cuda_naive/1_dense_row_major\.cu:\d+: the room .* is used up here.*STAGES_RACES_MEMORY \(MiB\)\n$")
        (entry,) = json.loads(data.read_text())["entries"]
        self.assertEqual(entry["races"], [])
        self.assertIn("used up", entry["problem"])

    def test_what_was_counted_is_kept(self):
        """Where a later entry is refused, or one of the two files cannot be written."""
        entry, data, page = "05_cuda_csr/thread_per_row", self.directory / "lens.json", self.directory / "lens.html"
        for words, error in (([entry, "03_cuda_naive/dense_row_major", "-m", "gen:eye:n=4000", "--max-work", 100000, "--json", data, "--html", page], "limit on the executor"),
                             ([entry, "-m", self.MATRIX, "--json", "/dev/full", "--html", page], "/dev/full: writing stopped")):
            done = run("lens", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(error, done.stderr)
            self.assertIn(entry, done.stdout)
            self.assertIn(entry, page.read_text())
            page.unlink()
        self.assertEqual([e["entry"] for e in json.loads(data.read_text())["entries"]], [entry])

    def test_many_empty_rows_are_refused_in_time(self):
        tall = self.write("tall.mtx", "%%MatrixMarket matrix coordinate real general\n120000000 2 0\n")
        self.refused(r"120000000 x 2 with 0 entries needs 12\.0 GB of memory", "lens", "05_cuda_csr/thread_per_row", "-m", tall)

    def test_what_was_counted_before_a_signal_is_kept(self):
        entry, long, data, page = "05_cuda_csr/thread_per_row", "05_cuda_csr/two_arrays", self.directory / "lens.json", self.directory / "lens.html"
        words = ["lens", entry, *[long] * 50, "-m", "gen:uniform:rows=20000,cols=20000,nnz=200000", "--json", data, "--html", page]
        process = subprocess.Popen([PROGRAMS / "stages", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn(entry, process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertIn("ended by SIGTERM: this is a part", said)
        found = json.loads(data.read_text())
        self.assertEqual(found["part"], "ended by SIGTERM")
        self.assertEqual(found["entries"][0]["entry"], entry)
        self.assertIn("a part: ended by SIGTERM", page.read_text())

    def test_a_run_says_why_it_did_not_count(self):
        """Its checks are good all the same."""
        path = self.directory / "run.json"
        self.good("run", "-m", self.MATRIX, "--op", "spmv", "--stage", "03", "--time-budget", "0.01", "--json", path, env={"PATH": "/nonexistent"})
        for row in json.loads(path.read_text())["results"]:
            self.assertEqual(row["status"], "good")
            self.assertNotIn("fetched_bytes", row["metrics"])
            self.assertRegex(row["note"], r"not counted: objdump \(Debian: binutils\) is not on the PATH")

    def test_refused(self):
        for expected, *words in (
            ("runs on the host", "01_cpu_serial/csr_spmv", "-m", self.MATRIX),
            ("on several GPUs", "08_spgemm_multigpu/multi_gather", "-m", self.MATRIX),
            ("there is no entry '05_cuda_csr/none'", "05_cuda_csr/none", "-m", self.MATRIX),
            ("needs 40.* GB of memory, the limit is", "03_cuda_naive/dense_row_major", "-m", "gen:eye:n=100000"),
            ("needs 4.00 k steps, the limit on the executor is 1.00 k", "05_cuda_csr/warp_per_row", "-m", self.MATRIX, "--max-work", 1000),
            ("nowhere.mtx", "05_cuda_csr/warp_per_row", "-m", "nowhere.mtx"),
            ("as many columns as B has rows", "08_spgemm_multigpu/binned", "-m", WIDE),
            ("--matrix is required", "05_cuda_csr/warp_per_row"),
            ("cannot be written|no such", "05_cuda_csr/warp_per_row", "-m", self.MATRIX, "--json", self.directory / "no" / "f.json"),
        ):
            self.refused(expected, "lens", *words)


class Studies(Case):
    def test_studies_say_what_they_want(self):
        for study in ("d2-study", "spmm-study"):
            for words, expected in ((["--help"], f"^usage: tools/{study}.sh .*\n$"),
                                    (["no/such/stages"], f"^{study}: there is no program no/such/stages; build it .*\n$")):
                done = subprocess.run([ROOT / "tools" / f"{study}.sh", *words], cwd=self.directory, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, expected)
                self.assertEqual(done.stdout, "")

    def test_real_matrices_are_those_that_are_there(self):
        """The part `real` of spmm-study.sh: a record of its own, of the files in STAGES_FILES."""
        played = pathlib.Path(self.directory, "stages")
        played.write_text('#!/bin/sh\necho "$*"\n')
        played.chmod(0o755)
        study = [ROOT / "tools/spmm-study.sh", "--n-cols", "32,128", played, self.directory, "real"]
        run = lambda files: subprocess.run(study, env={**os.environ, "STAGES_FILES": files}, capture_output=True, text=True, check=False)
        self.assertEqual(run("").returncode, 2)
        self.assertIn("STAGES_FILES names no directory with a file of the part 'real'", run(str(self.directory)).stderr)
        pathlib.Path(self.directory, "wave.mtx.gz").touch()
        done = run(str(self.directory))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, f"^run -m {self.directory}/wave.mtx.gz --op spmm --n-cols 32,128 --filter .*tensor_tiles.* --json {self.directory}/spmm_real.json\n$")
        self.assertIn("4elt.mtx.gz is not in STAGES_FILES", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    PROGRAMS, ROOT = options.programs.resolve(), options.root.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
