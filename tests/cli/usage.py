#!/usr/bin/env python3
"""Help, the command line, and what is said where it is wrong; stages list."""

import json
import os
import re
import shlex
import sys

from programs import LIMIT, MATRIX, ROOT, SMALL, WIDE, Case, entries, has_ranks, host_entry, listed, main, on_executor, run


class Help(Case):
    def commands(self):
        return re.findall(r"(?m)^  (\w+) {2,}\S", self.good("--help").stdout.split("Commands:")[1].split("Options:")[0])

    def test_every_help_shows_examples(self):
        self.assertLessEqual({"list", "run", "multiply", "info", "generate", "lens", "grade"}, set(self.commands()))
        self.assertIn("77", self.good("--help").stdout)  # an exit code
        for command in [[], *[[c] for c in self.commands()]]:
            done = self.good(*command, "--help")
            self.assertIn("Examples:\n  stages ", done.stdout)
            self.assertEqual(done.stderr, "")
            self.assertNotRegex(done.stdout, r"(?m)^:$")  # the group of hidden options
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), 118, command)

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
        self.write("com-youtube.ungraph.txt.gz", "0 1\n")
        self.write("edge.csv.gz", "0,1\n")
        self.write("x.mtx", f"%%MatrixMarket matrix array real general\n{cols} 1\n" + "1\n" * cols)
        for command in set(self.commands()) - {"grade"}:
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

    def test_examples_of_grade_work(self):
        """On an answer of ours; the one that grades all of a student's files finds none in the sources, and says how to make some."""
        self.good(ROOT / "tools/exercises.py", "05_cuda_csr", "-o", self.directory / "my", "--solutions", program=sys.executable)
        for words in self.examples("grade"):
            with self.subTest(example=words):
                if len(words) > 2:
                    done = run(*words, cwd=self.directory, timeout=5 * LIMIT)  # a compiler is among it
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                elif not (ROOT / words[1] / "exercises/mine").exists():
                    self.refused(f"holds no files; make them by tools/exercises.py {words[1]}", *words, cwd=self.directory)

    def test_what_else_is_shown(self):
        for words, expected in ((["generate", "--help"], ("gen:rmat ", "gen:twin ", "gen:stencil ")),
                                (["generate", "--list"], ("edge_factor", "data:web"))):
            for name in expected:
                self.assertIn(name, self.good(*words).stdout)
        self.assertRegex(self.good("--version").stdout, r"^sparse-stages \d+\.\d+")

class Usage(Case):
    """Each is one line that says what is wrong and how to mend it, and exit code 2."""

    def test_words(self):
        a, x = self.write("a.mtx", MATRIX), self.directory / "x"
        small = ["run", "-m", SMALL]
        self.all_refused(
            ("no command given; the commands are list, run, multiply, info, generate, convert, lens, .*grade",),
            ("there is no command 'mulitply'; the nearest is 'multiply'", "mulitply"),
            ("--bogus", "run", "--bogus"),
            ("--with", "multiply", "a.mtx", "b.mtx", "-o", "c.mtx"),
            ("SPEC", "generate"),
            ("--output", "generate", SMALL),
            ("--products", *small, "--mode", "stream", "--products", "-010"),
            ("--products 5: a single product", *small, "--products", "5"),
            *((f"{flag}: 2.5 is no whole number", *small, flag, "2.5") for flag in ("--products", "--n-cols", "--ranks")),
            *((f"{flag} {items}: an item of the list is empty", *small, flag, items)
              for flag, items in (("--n-cols", "1,,2"), ("--op", ",spmv"), ("--stage", "01,"), ("--destination", "host,,distributed"), ("--ranks", "2,"))),
            *((flag, *small, flag, value)
              for flag, value in (("--n-cols", "0"), ("--op", "spxx"), ("--type", "f16"), ("--max-noise", "-1"), ("--cache", "warm"),
                                  ("--check", "never"))),
            ("-b is for spgemm, and this run has spmv only", *small, "--op", "spmv", "-b", SMALL),
            ("--alpha is for spmm, and this run has spmv, spgemm only", *small, "--op", "spmv,spgemm", "--alpha", "2"),
            (r"--mode stream is for spmv, and this run has spgemm \(-b\) only", *small, "-b", SMALL, "--mode", "stream"),
            ("--mode chain is for spmv, and this run has spmm only", *small, "--op", "spmm", "--mode", "chain"),
            ("--products: Value 0 not in range", *small, "--op", "spgemm", "--mode", "chain", "--products", "0"),
            ("a chain of products needs a square B, and this one is 20 x 50", "run", "-m", WIDE, "--op", "spgemm", "--mode", "chain"),
            ("--require-clock is not for chains of spgemm", *small, "--op", "spgemm", "--mode", "chain", "--require-clock", "1700"),
            ("--destination: .*nowhere", *small, "--op", "spgemm", "--destination", "host,nowhere"),
            ("--alpha 1e.40: f32 ends at 3.4e.38", *small, "--op", "spmm", "--stage", "01", "--alpha", "1e40"),
            ("MATRIX: its value is empty", "info", ""),
            ("--matrix-b: its value is empty", *small, "-b", "", "--op", "spgemm"),
            (r"--filter '\(': no regular expression", *small, "--filter", "("),
            ("01_cpu_serial/csr_spmv has no parameters; `list --parameters`", *small, "--set", "01_cpu_serial/csr_spmv:x=1"),
            ("--set:", *small, "--set"),
            (r"there is no entry 'qqqqqq'; `list` shows the \d+ that there are$", "multiply", "--with", "qqqqqq", a, a, "-o", x),
            (r"is an entry for spmv; for it (the nearest|there) are ('?01_cpu_serial/\w+'?(, | and |$))+$", "multiply", "--with", "01_cpu_serial/csr_spmv", a, a, "-o", x),
            ("--stage: there is no step '01_cpu_seriall'; the nearest is '01_cpu_serial'", *small, "--stage", "01_cpu_seriall"),
            ("gen:rmatt: there is no generator 'rmatt'; the nearest is 'rmat'", "info", "gen:rmatt"),
            ("is no spec", "generate", "somefile.mtx", "-o", x),
            (r"rows=7{309},cols=1,nnz=1: rows=7{309} is not", "info", f"gen:uniform:rows={309 * '7'},cols=1,nnz=1"),
            # What to multiply goes with -m.
            *(("go with -m", "run", *words) for words in (["--set", "x/y:z=1"], ["--mode", "chain"], ["-b", "data:d2"], ["--n-cols", "8"], ["--beta", "1"], ["--index-base", "0"])),
            *((f"{option}: its value is empty", *small, "--op", "spmm", option, "") for option in ("--alpha", "--beta", "--max-noise", "--max-work")),
            *((f"--seed.*{value} is no whole number from 0 to 18446744073709551615", *small, f"--seed={value}")
              for value in ("-1", "18446744073709551616", "1.5", 309 * "7")))
        for flag in ("--alpha", "--beta", "--max-noise", "--time-budget", "--max-memory", "--max-work", "--max-seconds"):
            for value in ("nan", "inf", "1e400"):
                self.refused(rf"{flag}.*{value} is no finite number", *small, "--op", "spmm", flag, value)

    def test_result_files_that_are_something_else(self):
        a, x = self.write("a.mtx", MATRIX), self.directory / "x"
        link, link_to_nothing = self.directory / "link.mtx", self.directory / "nothing"
        link.symlink_to(a)
        link_to_nothing.symlink_to(x)
        same = "that is the matrix which is read"
        for flag in ("--json", "--csv"):
            self.all_refused((f"{flag}.* empty", "run", "-m", a, flag, ""), (same, "run", "-m", SMALL, "-b", a, "--op", "spgemm", flag, a),
                             *((f"{flag} .*: {same}; name another file", "run", "-m", a, flag, name)
                               for name in (a, link, f"{self.directory}/./a.mtx")))
        self.all_refused(("--json and --csv both name", "run", "-m", a, "--json", x, "--csv", f"{self.directory}/./x"),
                         (f"--output .*: {same}", "multiply", "--with", host_entry("spgemm"), a, SMALL, "-o", link),
                         ("give two files", "run", "-m", SMALL, "--json", x, "--csv", link_to_nothing))
        self.assertEqual(a.read_text(), MATRIX)

    def test_places_that_cannot_be_written(self):
        """Found before the work."""
        nowhere, a = self.directory / "no" / "such" / "place.json", self.write("a.mtx", MATRIX)
        self.all_refused(
            *((f"{flag}: .*place.json: cannot be written .No such file", "run", *words, flag, nowhere) for flag in ("--json", "--csv") for words in (["-m", SMALL], [])),
            *((f"{flag}: ", "run", "-m", SMALL, flag, self.directory) for flag in ("--json", "--csv")),
            ("--output: ", "generate", SMALL, "-o", nowhere),
            ("--output: ", "multiply", "--with", host_entry("spgemm"), a, a, "-o", nowhere))

    @on_executor
    def test_numbers_of_the_executor(self):
        words = ["run", "-m", SMALL, "--stage", "03", "--quick"]
        self.refused("STAGES_SCHEDULE.* is 'sideways'", *words, env={"STAGES_SCHEDULE": "sideways"})
        for name, what in (("STAGES_WATCHDOG", "seconds"), ("STAGES_WORKERS", "a whole number"), ("STAGES_DEVICE_MEMORY", "a whole number of MiB"),
                           ("STAGES_DEVICE_SMS", "a whole number"), ("STAGES_DEVICE_L2", "a whole number of MiB"), ("STAGES_RACES_MEMORY", "a whole number of MiB")):
            for text in ("many", "0", "-1", "4x", "nan", "1e30", "99999999999999999999") + (("1.5",) if what != "seconds" else ()):
                self.refused(rf"{name} is '{re.escape(text)}'; it must be {what}, above 0 and at most \d+$", *words, env={name: text})

    def test_strange_file_names(self):
        """Control characters do not reach the terminal, and CSV is UTF-8."""
        for name in (b"a\x1b[31mred.mtx", b"two\nlines.mtx", b"no\xfftext.mtx", b"c1\xc2\x9b31m.mtx", b"left\xe2\x80\xae.mtx"):
            path = self.write(os.fsdecode(name), MATRIX)
            done = (self.good("run", "-m", path, "--quick", "--stage", "01", "--op", "spmv", "--csv", self.csv, text=False),
                    self.good("info", f"{path}\x1b", code=2, text=False))
            said = b"".join(one.stdout + one.stderr for one in done)
            for raw in (b"\x1b", b"two\n", b"\xff", b"\xc2\x9b", b"\xe2\x80\xae"):
                self.assertNotIn(raw, said + self.csv.read_bytes())
            self.csv.read_text(encoding="utf-8")

    def test_patterns_that_would_take_all_time_or_memory(self):
        """Each ends within a second or so, with a match, with none, or with an error of one line."""
        def soon(call, *words):
            begun = os.times().children_user
            done = call(*words, "run", "-m", SMALL, "--op", "spmv", "--stage", "01", "--max-work", "1", "--filter", pattern)
            self.assertLess(os.times().children_user - begun, 5)
            return done

        # Back-references, braces, depth, open brackets, stars, repeats in groups.
        for pattern in (r"(a*)(a*)\1\2b", "a{2}", "(" * 101 + "a" + ")" * 101, "(" * 1000, "a*****", "(" * 10 + "a" + "+)" * 10):
            with self.subTest(pattern[:40]):
                soon(self.refused, "--filter '.{1,60}': ")
        for pattern in ("(a*)*b", "(a|aa)*b", "(.*)*(.*)*(.*)*z", "(((" + "a" * 4000 + "+)+)+)+", "(" * 100 + "csr" + ")" * 100, "a?" * 1000 + "a" * 1000,
                        r"\\|[[:digit:]]_cpu", r"\(x\)", "[]*+(]|[[.-.]*]", ")", "|".join(entries())):
            with self.subTest(pattern[:40]):
                done = soon(run)
                self.assertIn(done.returncode, (2, 77), done.stderr)
                self.assertNotIn("--filter '", done.stderr)


class List(Case):
    def test_text(self):
        text = self.good("list").stdout
        self.assertTrue(text.startswith("01_cpu_serial\n"), text[:200])
        self.assertEqual([name for name in entries() if name not in text], [])
        self.assertNotIn("\033", text)

    def test_json(self):
        found = listed()
        self.assertEqual((found["schema_version"], set(found)), (1, {"schema_version", "version", "backend", "entries", "left_out"}))
        for entry in found["entries"]:
            self.assertEqual({"name", "stage", "operation", "idea", "peer", "needs", "claims", "parameters"}, set(entry))
            self.assertTrue(entry["name"].startswith(entry["stage"] + "/"))
            self.assertGreater(len(entry["idea"]), 10, entry)
            self.assertEqual(entry["peer"], entry["stage"] == "vendor")
        self.assertEqual({"spmv", "spmm", "spgemm"}, {e["operation"] for e in found["entries"]})

    def test_parameters(self):
        """Those of --json, and of no other entry."""
        expected = {e["name"]: e["parameters"] for e in listed()["entries"] if e["parameters"]}
        text = self.good("list", "--parameters").stdout
        self.assertEqual(re.findall(r"^\S+", text, re.MULTILINE), list(expected))
        for of in expected.values():
            for p in of:
                self.assertIn(f"  {p['name']:<8}  {p['meaning']}\n            from {p['least']} to {p['most']}; by default: {p['default']}\n", text)

    def test_programs_of_steps(self):
        """Only its entries; the program of a step with kernels has the lens, too."""
        text = self.good("list", program="01_cpu_serial").stdout
        self.assertIn("01_cpu_serial/", text)
        self.assertNotIn("vendor", text)
        self.good("run", "-m", SMALL, "--quick", program="01_cpu_serial")
        self.all_refused(("no command given; the commands are list, run, multiply, info, generate, convert;",), ("there is no command 'lens'", "lens"),
                         program="01_cpu_serial")
        self.assertIn("sectors", self.good("lens", "04_cuda_shared/batched_loads", "-m", "gen:fixed:n=64,zeros=0.8", program="04_cuda_shared").stdout)
        self.refused("there is no command 'grade'", "grade", program="04_cuda_shared")

if __name__ == "__main__":
    main()
