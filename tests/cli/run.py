#!/usr/bin/env python3
"""stages run: what it finds out, and that this is kept whatever ends it; a look at every step; wrong results."""

import csv
import fcntl
import json
import os
import re
import select
import signal
import time

from programs import (BAD, LIMIT, MATRIX, PROGRAMS, ROOT, SMALL, VECTOR, WIDE, Case, begin, ended, entries, few_processes, in_shell, listed, main,
                      on_executor, read_until, run, with_kernels)
from played import on_terminal


class Run(Case):
    def test_everything_on_a_small_matrix(self):
        self.json.write_text("old")
        results, done = self.results("-m", SMALL, "--quick", "--all", "--csv", self.csv)
        self.assertEqual({p.name for p in self.directory.iterdir()}, {"out.json", "out.csv"})
        self.assertEqual(results["schema_version"], 1)
        self.assertLessEqual({"command", "date", "version", "source_digest", "compiler", "flags", "cpu", "memory", "system"}, set(results["context"]))
        rows = results["results"]
        self.assertEqual(sorted(r["entry"] for r in rows), sorted(entries()))
        self.statuses()  # both files say the same
        for row in rows:
            self.assertIn(row["entry"], done.stdout)
            self.assertIn(row["status"], ("good", "skipped"), row)
            if row["status"] == "skipped":
                self.assertTrue(row["reason"], row)
                continue
            self.assertTrue(row["check"]["passed"])
            self.assertLessEqual(row["check"]["worst_share_of_bound"], 1)
            self.assertEqual("seconds" in row, not row["simulated"], row)
        self.assertRegex(done.stdout.splitlines()[-1], r"^\d+ good, 0 wrong, 0 failed, \d+ skipped$")
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertIn(f"[{len(rows)}/{len(rows)}]", done.stderr)

    @with_kernels
    def test_columns_of_step_7_on_a_matrix_of_a_course(self):
        """268 thousand non-zeros by 32 columns: no entry of step 7 is left out on the executor."""
        of_step = entries(operation="spmm", stage="07_spmm")
        results, _ = self.results("-m", "data:fem", "--quick", "--op", "spmm", "--stage", "07", "--n-cols", "32")
        self.assertEqual([(r["entry"], r["status"]) for r in results["results"]], [(entry, "good") for entry in of_step])

    @with_kernels
    def test_values_of_parameters(self):
        """Each value is an entry behind that of the rule; every pair in one --set, each --set for itself."""
        name = "07_spmm/merged_short_rows"
        words = ["-m", SMALL, "--quick", "--op", "spmm", "--filter", "rows$", "--stage", "07"]
        set_of = lambda *settings: [word for setting in settings for word in ("--set", setting)]
        results, _ = self.results(*words, *set_of(f"{name}:chunk=7,64,rows=2,chunk=7", f"{name}:rows=1,2"), "--csv", self.csv)
        rows = {row["entry"]: row for row in results["results"]}
        of_entry = [entry for entry in rows if entry.startswith(name)]
        self.assertEqual(of_entry, [name + values for values in ("", ":rows=2,chunk=7", ":rows=2,chunk=64", ":rows=1", ":rows=2")])
        self.assertEqual({rows[entry]["status"] for entry in of_entry}, {"good"})
        told = [[rows[entry]["metrics"][of]["value"] for of in ("chunk", "rows")] for entry in of_entry[1:]]
        self.assertEqual(told, [[7, 2], [64, 2], [128, 1], [128, 2]])
        with self.csv.open(newline="") as file:
            self.assertEqual([line["entry"] for line in csv.DictReader(file)], list(rows))
        for setting, expected in ((f"{name}:chunk=0", f"{name}:chunk=0: must be a whole number from 1 to 1073741824"),
                                  ("07_spmm/equal_shares:share=2", "--op, --stage and --filter leave out 07_spmm/equal_shares")):
            self.refused(expected, "run", *words, "--set", setting)
        b = self.write("b.mtx", "%%MatrixMarket matrix array real general\n40 1\n" + "1\n" * 40)
        done = self.good("multiply", SMALL, b, "--with", f"{name}:chunk=7", "-o", self.directory / "c.mtx")
        self.assertIn(f"by {name}:chunk=7", done.stdout)

    @with_kernels
    def test_figures_of_entries_as_columns(self):
        words = ["-m", SMALL, "--quick", "--op", "spmm", "--filter", "07_spmm/(split|merged_short)_rows$|01_cpu.*csr_spmm$"]
        results, done = self.results(*words, "--metrics", "tasks,chunk")
        value = {row["entry"]: row["metrics"].get("tasks", {"value": None})["value"] for row in results["results"]}
        lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        ends = lines["entry"].index("tasks") + len("tasks"), lines["entry"].index("chunk") + len("chunk")
        for entry, tasks in value.items():
            self.assertEqual(lines[entry][:ends[0]].split()[-1], "-" if tasks is None else f"{tasks:,.0f}", lines[entry])
        self.assertEqual(len(set(value.values())), 3, value)
        self.assertEqual(lines["07_spmm/split_rows"][:ends[1]].split()[-1], "128")
        done = self.good("run", *words, "--metrics", "tasks,task", code=2)
        self.assertRegex(done.stderr.splitlines()[-1], r"^stages: error: --metrics task: no entry that ran has it; there are .*\bchunk, .*\btasks\b")
        self.assertIn("07_spmm/split_rows", done.stdout)

    def test_index_base_0(self):
        path = self.write("d1.mtx", "%MatrixMarket matrix coordinate real general\n3 3 4\n0 -1 1.0\n0 0 1\n1 2 1\n2 2 1\n")
        self.refused(r"d1\.mtx:3: ", "info", path, "--index-base", "0")
        done = self.good("info", path, "--json", "--index-base", "0", "--drop-out-of-range")
        self.assertEqual(json.loads(done.stdout)["nnz"], 3)
        self.assertIn("1 entry outside the matrix left out", done.stderr)

    def test_integers_that_are_rounded_are_told_of(self):
        matrix = self.write("a.mtx", f"%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 {2**24 + 1}\n2 2 {2**53 + 1}\n")
        words = ["run", "-m", matrix, "--quick", "--filter", "/csr_spmv$", "--stage", "01"]
        self.assertIn("a.mtx: 2 integers beyond 2^24 rounded to the nearest f32; --type f64 keeps", self.good(*words).stderr)
        self.assertIn("a.mtx: 1 integer beyond 2^53 rounded to the nearest f64\n", self.good(*words, "--type", "f64").stderr)
        self.assertEqual(in_shell("", *words, after="2>/dev/full").returncode, 0)

    def test_limits_skip_with_the_number(self):
        results, _ = self.results("-m", "gen:uniform:n=300,nnz=900", "--quick", "--stage", "01", "--op", "spmv", "--max-work", "2e4")
        self.assertEqual({r["status"] for r in results["results"]}, {"good", "skipped"})  # exit code 0
        for limit, expected in ((["--max-work", "1"], r"needs [\d.]+ k? ?steps, the limit is 1 \(--max-work\)"),
                                (["--max-memory", "1e-9"], r"needs .* of memory, the limit is .* \(--max-memory\)")):
            results, done = self.results("-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", "--all", *limit, code=77)
            for row in results["results"]:
                self.assertEqual(row["status"], "skipped")
                self.assertRegex(row["reason"], expected)
                self.assertIn(row["reason"], done.stdout)

    @on_executor
    def test_what_takes_too_long_on_the_executor_is_stopped(self):
        started = time.monotonic()
        results, _ = self.results("-m", "data:circuit", "--op", "spgemm", "--filter", "binned", "--max-seconds", "0.5", code=77)
        self.assertLess(time.monotonic() - started, 20)  # all of the check takes a minute
        self.assertRegex(results["results"][0]["reason"], r"not done after 500 ms on the executor, the limit \(--max-seconds\)")

    def test_as_many_products_as_the_limits_allow(self):
        words = ["-m", "gen:uniform:rows=5000,cols=5000,per_row=8", "--op", "spmv", "--mode", "stream", "--quick", "--stage", "01"]
        for limit, products in ([], 100), (["--max-work", "2e6"], 50), (["--max-work", "2e6", "--products", "60"], 60):
            results, _ = self.results(*words, *limit, code=77 if products == 60 else 0)
            self.assertEqual({row["problem"]["products"] for row in results["results"]}, {products})

    def test_skipped_rows_fold(self):
        words = ["-m", SMALL, "--quick", "--stage", "01", "--op", "spgemm", "--max-work", "1"]
        results, done = self.results(*words, code=77)
        rows = results["results"]
        self.assertGreater(len(rows), 1)
        self.assertIn(f"{len(rows)} skipped (--all shows them), such as {rows[0]['entry']}: {rows[0]['reason']}", done.stdout)
        self.assertNotIn(rows[1]["entry"], done.stdout)
        _, done = self.results(*words, "--filter", "hypersparse", code=77)  # one alone needs no line for it
        self.assertRegex(done.stdout, r"hypersparse +skipped: needs")

    def test_the_whole_set(self):
        """data:all is the built-in set, each matrix with the operations that it is meant for; d1_uniform with a B of its own."""
        results, _ = self.results("-m", "data:all", "--stage", "01", "--max-work", "1", code=77)
        asked = {}
        for row in results["results"]:
            asked.setdefault(row["problem"]["matrix"], set()).add((row["problem"]["operation"], row["problem"]["options"]))
        self.assertEqual(asked["data:d1_uniform"], {("spgemm", "times gen:d1:b,form=uniform")})
        of = {matrix: {operation for operation, _ in problems} for matrix, problems in asked.items()}
        self.assertEqual(("spmm" in of["data:d2"], "spgemm" in of["data:d2"], "spmm" in of["data:hypersparse"]), (True, False, False))

    def test_forms_of_problems(self):
        """What the options make of the problem: its options in the results, and what else is said of it."""
        for options, said, *words in (
            ({"", "N = 3", "N = 10"}, "'type': 'f64'", "-m", SMALL, "--op", "spmv,spmm", "--n-cols", "3,010", "--type", "f64"),
            ({"stream of 7"}, "'products': 7", "-m", SMALL, "--op", "spmv", "--mode", "stream", "--products", "7"),
            ({"chain of 7"}, "'products': 7", "-m", SMALL, "--op", "spmv", "--mode", "chain", "--products", "7"),
            ({"N = 32, alpha = 2, beta = -0.5, B col-major, C col-major"}, "", "-m", WIDE, "--op", "spmm", "--alpha", "2", "--beta", "-0.5", "--layout", "col"),
            ({"A^T A"}, "", "-m", "gen:uniform:rows=60,cols=9,nnz=150", "--op", "spgemm"),
            ({"times gen:uniform:rows=50,cols=30,nnz=80"}, "'operation': 'spgemm', .*'result_cols': 30", "-m", WIDE, "-b",
             "gen:uniform:rows=50,cols=30,nnz=80"),
            ({""}, "", "-m", SMALL, "--op", "spmv", "--cache", "cold", "--seed", "77"),
            ({""}, "", "-m", SMALL, "--op", "spmv", "--check", "once")):
            with self.subTest(words=words):
                results, _ = self.results(*words, "--quick", "--stage", "01")
                self.assertEqual({row["problem"]["options"] for row in results["results"]}, options)
                for row in results["results"]:
                    self.assertTrue(re.search(said, str(row["problem"])), row)
                    self.assertEqual(row["status"], "good")
                    self.assertGreater(row["check"]["rows_checked"], 0)
                    self.assertIn("seconds", row)
                self.assertIn(" ".join(words[-2:]), results["context"]["command"])

    def test_what_no_gpu_tells_cannot_be_asked_for(self):
        if listed()["backend"] != "cpu":
            self.skipTest("a GPU may tell")
        self.refused("^stages: error: --require-clock 1700: the GPU's clock is not known: ", "run", "-m", SMALL, "--op", "spmv", "--quick", "--require-clock", "1700",
                     *self.files)


class Kept(Case):
    """What was found out is written, whatever comes after it."""

    HOST = ["--quick", "--op", "spmv", "--filter", "01_cpu_serial/(dense_spmv|csr_spmv|csr_spmv_by_length)$"]

    def test_a_directory_that_is_gone(self):
        gone = self.directory / "gone"
        gone.mkdir()
        done = in_shell(f"cd {gone} && rmdir {gone} &&", "run", "-m", SMALL, *self.HOST, *self.files)
        self.assertEqual((done.returncode, self.statuses()[1]), (0, {(SMALL, "good")}), done.stderr)

    def test_a_matrix_that_cannot_be_read_is_a_row(self):
        bad = self.write("bad.mtx", BAD)
        self.refused(r"bad\.mtx:4", "run", "-m", bad, *self.HOST, *self.files)  # where nothing can be read nothing is written
        done = self.good("run", "-m", SMALL, bad, WIDE, *self.HOST, *self.files, code=2)
        said = f"{bad}:4: the entry at row 2, column 9 lies outside"
        self.assertEqual(done.stderr.count(said), 1, done.stderr)
        self.assertRegex(done.stdout, rf"all \d+ entries FAILED: {re.escape(said)}")
        context, statuses = self.statuses()
        self.assertEqual(statuses, {(SMALL, "good"), (str(bad), "failed"), (WIDE, "good")})
        self.assertIn(said, context["errors"])

    def test_a_run_that_is_ended_leaves_a_part(self):
        """It is told so while it works on its second matrix."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            with self.subTest(number):
                process = begin("run", "-m", SMALL, "gen:uniform:rows=20000,cols=20000,per_row=50", "--op", "spmv,spgemm", "--filter", "csr_spmv$|dense$", "--stage", "01",
                                "--time-budget", "30", "--max-noise", "1e-9", *self.files, number=number)
                read_until(process, SMALL, "spgemm")
                time.sleep(0.2)
                out, _ = ended(process, number)
                context, statuses = self.statuses()
                why = f"the run was ended by {number.name}"
                self.assertEqual((process.returncode, context["part"]), (-number, why))
                self.assertIn(why, out)
                self.assertIn((SMALL, "good"), statuses)
                self.assertNotEqual({matrix for matrix, _ in statuses}, {SMALL}, "the matrix under way has rows, too")
                self.json.unlink()
                self.csv.unlink()

    def test_a_signal_while_files_are_written(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # too small for the file: the program waits in the middle of it
            process = begin("run", "-m", SMALL, "gen:uniform:n=30,nnz=90", *self.HOST, "--json", pipe, "--csv", self.csv)
            self.assertTrue(select.select([reader], [], [], LIMIT)[0])
            process.terminate()
            time.sleep(0.3)
            os.set_blocking(reader.fileno(), True)
            text = reader.read()
        ended(process)
        self.assertGreater(len(text), 4096)
        self.assertEqual((len(json.loads(text)["results"]), process.returncode, len(self.csv.read_text().splitlines())), (6, -signal.SIGTERM, 7))

    def test_without_standard_streams(self):
        """A stream that is closed or full costs no result, and no message goes into a file that took its number."""
        for where in ("2>&-", "2>/dev/full", "<&- >&- 2>&-", "> /dev/full", "> /dev/full 2>&1", "| true", "2>&1 | true",
                      f"2>> {self.write('long', 'x' * (1 << 20))}", f">> {self.directory / 'long'}"):
            with self.subTest(where):
                before = f"set -o pipefail; {'ulimit -f 1024;' if 'long' in where else ''}"
                done = in_shell(before, "run", "-m", SMALL, *self.HOST, *self.files, after=where)
                self.assertNotIn(done.returncode, (134, -signal.SIGABRT), where)
                self.assertEqual(self.statuses()[1], {(SMALL, "good")}, where)
                self.json.unlink()
                self.csv.unlink()
        self.assertEqual(in_shell("", "list", after="| head -n 1").stderr, "")


class Processes(Case):
    """Threads that cannot be had."""

    def test_without_threads(self):
        self.assertIn("4,000 x 4,000", self.good("info", "gen:uniform:rows=4000,cols=4000,nnz=20000", limits=few_processes(1)).stdout)
        self.refused(r"no thread can be had: .*; close other programs, or raise `ulimit -u`", "run", "-m", SMALL, "--op", "spmv",
                     "--stage", "01", limits=few_processes(1))
        on_the_executor = entries(operation="spmv", stage="03_cuda_naive")
        if on_the_executor and os.geteuid() == 0:  # else the user's other processes count
            done = run("run", "-m", SMALL, "--filter", on_the_executor[0], limits=few_processes(2), env={"STAGES_WORKERS": "4"})
            self.assertRegex(done.stdout, "FAILED: the executor can have 0 of the [1-4] threads it needs .*; .* or lower STAGES_WORKERS")


class Tour(Case):
    """`run` without a matrix: every step, and a table of them."""

    def test_every_step_has_a_line(self):
        results, done = self.results()
        steps = sorted({e["stage"] for e in listed()["entries"] if not e["peer"]} | {x["name"] for x in listed()["left_out"] if x["name"][0].isdigit()})
        self.assertEqual([line["step"] for line in results["steps"]], steps)
        self.assertEqual([step[:2] for step in steps], [f"{k:02}" for k in range(1, 9)])
        here = {e["stage"] for e in listed()["entries"]}
        records = (line.split("\t") for line in (ROOT / "data/records.tsv").read_text().splitlines() if line[:1].isdigit())
        recorded = {entry: float(time) for entry, time, *_ in records}
        for line in results["steps"]:
            self.assertEqual(bool(line["missing"]), line["step"] not in here, line)
            of_step = [r for r in results["results"] if r["entry"].startswith(line["step"] + "/") and r["problem"]["matrix"] == line["matrix"]]
            for end in ("plainest", "best") if not line["missing"] else ():
                rows = [r for r in of_step if r["entry"] == f"{line['step']}/{line[end]['entry'].split(' on ')[0]}" and r["status"] == "good"]
                self.assertTrue(rows, (line, end))
                timed = [r["seconds"]["run"]["median"] for r in rows if "seconds" in r]
                self.assertIn((line[end]["outcome"] == "checked", line[end]["seconds"]), [(False, t) for t in timed] or [(True, None)])
                # Which entry is best here depends on the machine; one that is new has no record yet.
                self.assertEqual(line[end]["recorded_seconds"], recorded.get(rows[0]["entry"]), line)
        # What kernels ask for is counted of some entry of each of their steps, where they run on the executor.
        if "cpu)" in run("--version").stdout:
            counted = {r["entry"].split("/")[0] for r in results["results"] if r.get("metrics", {}).get("asked_of_L1", {}).get("value", 0) > 0}
            self.assertEqual(sorted(counted), [step for step in steps if step in here and step[:2] >= "03"])
        table = done.stdout[done.stdout.index("\nThe steps\n") + 1:].split("\n\n")[0].splitlines()[2:]
        self.assertEqual([line.split()[0] for line in table], steps)
        # Nothing is asked that cannot be done.
        self.assertEqual([row for row in results["results"] if not row["peer"] and row["status"] != "good"], [])

    def test_without_optimisation(self):
        """Step 1's program of that kind has its entries, and says how they are compiled."""
        small = ("-m", SMALL, "--quick", "--op", "spmv")
        (fast, _), (slow, _) = (self.results(*small, program="01_cpu_serial" + level) for level in ("", "_O0"))
        self.assertEqual(slow["context"]["flags"], fast["context"]["flags"] + " -O0")
        self.assertEqual([(r["entry"], r["status"]) for r in slow["results"]], [(r["entry"], "good") for r in fast["results"]])

    def test_part_of_it(self):
        results, _ = self.results("--stage", "03,04", "--filter", "dense")
        self.assertEqual([line["step"] for line in results["steps"] if not line["missing"]], ["03_cuda_naive"])
        self.assertEqual({r["entry"].split("/")[1] for r in results["results"]}, {"dense_row_major", "dense_transposed", "dense_padded"})
        results, done = self.results("--op", "spmv", program="01_cpu_serial")
        self.assertEqual({r["problem"]["operation"] for r in results["results"]}, {"spmv"})
        self.assertEqual([line["step"] for line in results["steps"]], ["01_cpu_serial"])
        self.refused("nothing that --op, --stage and --filter leave", "run", "--stage", "03", "--op", "spmm")
        self.refused("nothing that --op, --stage and --filter leave", "run", "--stage", "vendor")
        results, _ = self.results("--stage", "06", "--filter", "row_per_thread|chain")  # a chain is another problem than a stream
        self.assertEqual([(line["plainest"]["entry"], line["best"]["entry"]) for line in results["steps"] if not line["missing"]], [("row_per_thread",) * 2])


class Faults(Case):
    """What a wrong result looks like, by a program whose entries are wrong."""

    def test_a_wrong_result_and_an_error_of_an_entry_are_its_row(self):
        results, done = self.results("-m", SMALL, "--quick", "--filter", "refuses|zero|throws", code=1, program="faulty_entries")
        rows = {row["entry"].removeprefix("faulty/"): row for row in results["results"]}
        for entry, said in (("refuses", "FAILED: a call of the library failed; mend it$"),
                            ("throws", "FAILED: .*the device is on fire"), ("zero", "WRONG: .*element")):
            self.assertRegex(done.stdout, rf"(?m)^ *faulty/{entry} .*{said}")
        self.assertNotIn("seconds", rows["zero"])
        self.assertRegex(done.stdout.splitlines()[-1], "0 good, 1 wrong, 2 failed, 0 skipped")

    def test_wrong_product_is_not_written(self):
        y = self.directory / "y.mtx"
        words = ["multiply", "--with", "faulty/zero", self.write("a.mtx", MATRIX), self.write("x.mtx", VECTOR), "-o", y]
        self.assertIn("nothing was written", self.good(*words, code=1, program="faulty_entries").stderr)
        self.assertFalse(y.exists())
        self.good(*words, "--no-check", program="faulty_entries")
        self.assertTrue(y.exists())

    def test_left_out_stages_are_named(self):
        self.assertIn("99_missing: needs a part that is not there", self.good("list", program="faulty_entries").stdout)
        self.refused("--stage 99: left out of this build: it needs a part that is not there",
                     "run", "-m", SMALL, "--stage", "99", program="faulty_entries")


class Terminal(Case):
    """Progress is rewritten in place and the table is coloured on a terminal, and only there."""

    def shown(self, **environment):
        text, code = on_terminal(PROGRAMS / "stages", "run", "-m", SMALL, "--quick", "--stage", "01", "--op", "spmv", **environment)
        self.assertEqual(code, 0, text)
        return text

    def test_progress_and_colour(self):
        # As much is copied as takes longer than one line in place stays.
        text = self.shown(STAGES_COPY_BYTES="200000000")
        self.assertIn("\r\033[K[1/", text)
        start = text.index("\033[1m" + SMALL)
        self.assertTrue(text[:start].endswith("\r\033[K"), text)  # the line in place is gone
        self.assertNotIn("\r\033[K", text[start:])
        self.assertNotIn("\033[1m", self.shown(NO_COLOR="1"))
        self.assertNotIn("\033", self.shown(TERM="dumb"))

if __name__ == "__main__":
    main()
