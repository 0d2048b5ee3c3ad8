#!/usr/bin/env python3
"""tools/tables.py: the tables of several ranks, from records made by hand, and whether READMEs hold what the project's records say.

One file, though long: nearly all tests change one small record, which is made here."""

import contextlib
import copy
import importlib.util
import io
import itertools
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import draw_curve  # tools/draw_curve.py
import record as records  # tools/record.py
import rungs  # tools/rungs.py
import same_again  # tools/same_again.py
import tables  # tools/tables.py
from report import results as report_results, verdicts  # tools/report/
import whole_program  # tools/whole_program.py


def row(entry, ranks, median, phases=None, options="", **metrics):
    """A result of a product on `ranks` processes; on none if that is 0."""
    return {"entry": entry, "status": "good", "ranks": max(ranks, 1), "mpi": ranks > 0, "structure_reuse": False,
            "peer": entry.startswith("vendor/"), "problem": {"matrix": "gen:fem:nx=3", "options": options, "operation": "spgemm", "type": "f32", "multiplications": 50, "nnz": 9},
            "seconds": {"run": {"median": median, "q1": median, "q3": median, "noise": None}, "phases": phases or {}}, "metrics": {name: {"value": value} for name, value in metrics.items()}}


def record(*rows, **context):
    return {"results": list(rows), "context": {"cpu": "CPU of a test", "date": "2026-11-22T00:00:00Z", "source_digest": "0123456789abcdef", **context}}


def table(text, start):
    """Titles and rows, as dictionaries, of the table whose first title is `start`."""
    cells = lambda line: [cell.strip() for cell in line.strip("|").split("|")]
    lines = itertools.dropwhile(lambda line: not line.startswith(f"| {start} |"), text.splitlines())
    titles, _, *rows = map(cells, itertools.takewhile(lambda line: line.startswith("|"), lines))
    return titles, [dict(zip(titles, row, strict=True)) for row in rows]


CLOCKS = {"bytes_moved": 2.5e6, "imbalance": 1.25, "compute_imbalance": 1.5}
FEM, FIXED = "gen:fem:nx=3", "gen:fixed:n=407,zeros=0.8"


def on(matrix, row):
    """The row, of another matrix."""
    return {**row, "problem": {**row["problem"], "matrix": matrix}}


class Ranks(unittest.TestCase):
    """Tables of several processes: entries of step 2 beside serial ones, and of step 8 beside the same step's on one GPU, whose limit is 1 ms of memory."""

    CONTEXT = {"gpu": "GPU of a test", "gpu_copy_bandwidth_bytes_per_second": "1e9", "ranks=2: gpus": "2",
               "ranks=2: copy_bandwidth_bytes_per_second": "3e9"}

    def test_what_some_have_not(self):
        """A serial entry, and so a speed; a clock, and a column of what is not known of all; a phase."""
        made = record(row("02_mpi/x", 4, 5e-3, {"scatter": 1e-3}, compute_seconds=2e-3, bytes_moved=0, imbalance=1))
        titles, rows = table(tables.scaling(made, "02_"), "entry")
        self.assertEqual((rows[0]["compute"], rows[0]["root to root"], "in time" in titles), ("2.00 ms", "", False))
        self.assertEqual(table(tables.scaling(made, "02_", ["scatter", "columns of B"]), "entry")[1],
                         [{"entry": "`02_mpi/x`", "ranks": "4", "scatter": "1.00 ms", "columns of B": ""}])

    def of_gpus(self, *rows):
        return tables.scaling(record(row("08_x/one", 0, 4e-3, memory_bytes_at_least=1e6), *rows, **self.CONTEXT), "08_")

    def test_phases_and_limit(self):
        """One process is as one GPU; a phase that only others have is empty."""
        text = self.of_gpus(row("08_x/blocks", 2, 5e-3, {"analysis": 1e-5, "numeric": 1e-3}, compute_seconds=2e-3, **CLOCKS),
                            row("08_x/gather", 2, 9e-3, {"numeric": 1e-3}, compute_seconds=2e-3, **CLOCKS),
                            row("08_x/blocks", 1, 9e-3, compute_seconds=4e-3, **CLOCKS))
        self.assertEqual([" | ".join(r.values()) for r in table(text, "matrix")[1]],  # 1 ms of 2 ms on 2 GPUs
                         [f"gen:fem:nx=3 | `{entry}` | 2 | {analysis} | 1.00 ms |  |  | 25 % (memory)"
                          for entry, analysis in (("blocks", "10.0 us"), ("gather", ""))])

    def test_what_is_unknown_is_left_out(self):
        """A matrix that no single GPU computed, clocks that nobody knows, and rows of before some metric was there."""
        lonely = on("gen:other:n=2", row("08_x/blocks", 2, 5e-3, {"numeric": 1e-3}, compute_seconds=2e-3, distributed_seconds=2e-3,
                                         exchange_b_seconds=4e-4, **CLOCKS))
        text = self.of_gpus(row("08_x/blocks", 2, 5e-3, {"numeric": 1e-3}, compute_seconds=None, bytes_moved=0, imbalance=1), lonely)
        self.assertIn("other:n=2, spgemm f32:\n", text)
        self.assertEqual([list(table(part, "entry")[1][0].values()) for part in text.split("\n\ngen:")], [
            ["`08_x/blocks`", "2", "", "", "", "0.0 MB", "1.00", ""],
            ["`08_x/blocks`", "2", "2.00 ms", "2.40 ms", "", "2.5 MB", "1.25", "1.50"]])
        self.assertEqual([r["of the limit"] for r in table(text, "matrix")[1]], ["", ""])


class Rungs(unittest.TestCase):
    """data/rungs.tsv, and how long its rungs are."""

    def test_files_and_matrices(self):
        """Each has a file, names one before it, and is to gain on one of its step's three matrices."""
        for step, (arguments, of_step) in rungs.rungs().items():
            self.assertEqual(len(re.search(r"-m (.*?) --", arguments)[1].split()), 3, step)
            seen = []
            for rung in of_step:
                self.assertTrue(rungs.file_of(rung["entry"]).is_file())
                self.assertIn(rung["matrix"].split(";")[0], arguments.split(), rung)
                self.assertTrue(rung["over"] in ("-", *seen) or rung["over"][:2] < step[:2], rung)
                self.assertRegex(rung["predicted"], r"^(wrong turn|-|[\d.]+x)$")
                seen.append(rung["entry"])

    def test_no_kernel_is_longer_than_forty_lines(self):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            self.assertEqual(rungs.show_lengths(), 0, told.getvalue())
        with unittest.mock.patch.dict(rungs.MOST, {".cu": 39}), contextlib.redirect_stdout(io.StringIO()):
            self.assertGreater(rungs.show_lengths(), 0)

    def test_lines_of_device_code(self):
        text = "#include <a>\nnamespace b {\n\n// why\nconstexpr int kC = 1;\n__global__ void d(int* e) {\n  // f\n  *e = kC;\n}\n\nvoid g() { launch(d); }\n}\n"
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "1_d.cu"
            file.write_text(text)
            self.assertEqual(rungs.length(file), 3)

    def test_gains_and_the_picture(self):
        of_step = [{"entry": "07_x/a", "over": "-", "matrix": "gen:fem:nx=3", "predicted": "-", "words": ""},
                   {"entry": "07_x/b", "over": "07_x/a", "matrix": "gen:fem:nx=3", "predicted": "2x", "words": ""}]
        with tempfile.TemporaryDirectory() as directory, unittest.mock.patch.object(rungs, "rungs", lambda: {"07_x": ("", of_step)}):
            path, picture = pathlib.Path(directory) / "r.json", pathlib.Path(directory) / "r.svg"
            for faster, told in ((2e-3, r"4\.00x .* predicted 2x\n$"), (7.9e-3, r"1\.01x .* GAINS TOO LITTLE\n$")):
                results = record(row("07_x/a", 0, 8e-3), row("07_x/b", 0, faster), gpu="GPU of a test")
                for result in results["results"]:
                    result["seconds"]["run"]["processes"] = []  # as the program writes it
                path.write_text(json.dumps(results))
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    rungs.show_gains([path])
                self.assertRegex(said.getvalue(), told)
            rungs.draw(path, picture)
            drawn = picture.read_text()
            self.assertEqual((drawn.count('class="own"'), "prefers-color-scheme:dark" in drawn), (2, True))


class Ladder(unittest.TestCase):
    """The rungs of a step: three columns are typed, the others come from a record."""

    TYPED = "| file | entry | what is new |\n|---|---|---|\n| `1_a.cu` | `a` | the first |\n| `2_b.cu` | `b` | more |\n"

    def ladder(self, *results, written=TYPED):
        """Titles, rows and all of the text; it is the same when it is made again."""
        results = record(*results, gpu="GPU of a test") if results else None
        text = tables.ladder(results, "^07_", written, "results/x.json")
        self.assertEqual(tables.ladder(results, "^07_", text, "results/x.json"), text)
        return *table(text, "file"), text

    def test_which_rungs_and_gains(self):
        """What has no time has no gain, and the next is over the line before it; what nobody typed comes behind."""
        a, b, c = (row("07_x/" + name, 0, time) for name, time in (("a", 8e-3), ("b", 4e-3), ("c", 2e-3)))
        three = "| `1.cu` | `a` | |\n| `2.cu` | `b` | |\n| `3.cu` | `c` | |\n"
        one, two = ("`1.cu`", "`a`", "8.00 ms", ""), ("`2.cu`", "`b`", "4.00 ms", "2.00x")
        for results, written, expected in (
                ((a, {**b, "status": "skipped"}, c), three, [one, ("`2.cu`", "`b`", "", ""), ("`3.cu`", "`c`", "2.00 ms", "4.00x")]),
                ((a, b, row("08_y/q", 0, 1e-3)), three.splitlines()[0], [one, ("", *two[1:])])):
            with self.subTest(expected=expected):
                rows = self.ladder(*results, written=written)[1]
                self.assertEqual([(r["file"], r["entry"], r["gen:fem:nx=3"], r["gain"]) for r in rows], expected)

    def test_a_gain_within_the_noise_is_none(self):
        for speeds, text in (([(1.02, 0.03)], "~1x"), ([(0.98, 0.03)], "~1x"), ([(1.04, 0.03)], "1.04x"), ([(1.02, 0.03)] * 4, "1.02x")):
            self.assertEqual(tables.gain(speeds), text)
        noises = [tables.noise({"seconds": {"run": {"median": 2, "q1": 1, "q3": 3, "noise": noise, "processes": processes}}}) for noise, processes in
                  ((0.01, 1), (0.05, 1), (0.01, 3), (None, 1))]
        self.assertEqual(noises, [0.02, 0.05, 0.01, 1])

    def test_of_the_library_with_a_pool_and_without(self):
        """A record says which of the two it has, and where it has both, both."""
        rows = [row("vendor/cusparse_spgemm_alg1" + pooled, 0, 1e-3) for pooled in ("", "_pooled")]
        self.assertEqual([tables.memory_of_library(of) for of in ([], rows[:1], rows)],
                         ["", "which allocates in each run", "with and without step 8's pool of memory"])

    def test_without_a_record_nothing_is_made_up(self):
        titles, rows, text = self.ladder()
        self.assertEqual((titles, [r["entry"] for r in rows]), (["file", "entry", "what is new"], ["`a`", "`b`"]))
        self.assertIn("(No record yet: results/x.json.\nOn a GPU `tools/verify-gpu.sh --only ladders` makes it", text)
        self.assertEqual(self.ladder(written=self.ladder(row("07_x/a", 0, 8e-3), row("07_x/b", 0, 8e-3))[2])[2], text)

    def test_typed_files_are_there_and_have_their_entry(self):
        found = 0
        for page in ROOT.glob("[0-9][0-9]_*/README.md"):
            for match in tables.BLOCK.finditer(page.read_text()):
                for file, entry, _ in tables.typed_rungs(match[6]) if match[2] == "ladder" else ():
                    found += 1
                    sources = "".join(f.read_text() for f in (page.parent / "stage.hpp", page.parent / file.strip("`")))
                    self.assertIn(f"{page.parent.name}/{entry.strip('`')}", sources, f"{page}: {file}")
        self.assertGreater(found, 0)


class WholePrograms(unittest.TestCase):
    """tools/whole_program.py."""

    def test_times_are_of_the_program_and_of_all_that_it_starts(self):
        took, said = whole_program.run("bash", "-c", "sleep 0.4 & (for ((i = 0; i < 200000; ++i)); do :; done); wait; echo done")
        self.assertEqual(said, "done\n")
        self.assertGreater(took["real"], 0.4)
        self.assertGreater(took["user"], 0.05)  # of the child's loop: bash itself takes milliseconds
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
            whole_program.run("bash", "-c", "echo no such entry >&2; exit 77")
        self.assertEqual(ended.exception.code, 77)
        self.assertIn("exit code 77: no such entry", said.getvalue())


class Limits(unittest.TestCase):
    """What a sparse product takes at least, from the records beside it."""

    RECORDS = {
        "nvidia-h200/gather.json": {"rates": [{"piece_bytes": 32, "bytes_per_second": 9e12}, {"piece_bytes": 64, "bytes_per_second": 6.4e12}, {"piece_bytes": 64, "bytes_per_second": 3.2e12}]},
        "*/l2_requests.json": {"products": [{"matrix": "carry/mine.mtx.gz", "requests": 1e8}]},
        "nvidia-h200/counters_spgemm.json": {"cases": [{"status": "good", "entry": "08_x/a", "matrix": "other/mine.mtx", "instructions": 4 * 10 * 1.98e9 * 4e-3,
                                                        "load_sectors": 8, "load_sectors_hit": 2}]},
    }

    def test_each_limit_as_far_as_it_is_known(self):
        """2 ms of memory, 1 ms of L2 (1e8 requests at 1e11 a second), 4 ms of instructions: of 8 ms."""
        for records_, matrix, expected in ((self.RECORDS, "mine.mtx", ["25 %", "12 %", "50 %", "25 %"]),
                                           (self.RECORDS, "yours.mtx", ["25 %", "", "", ""]),
                                           ({}, "mine.mtx", ["25 %", "", "", ""])):
            one = on(matrix, {**row("08_x/a", 0, 8e-3, {"numeric": 1e-3}, memory_bytes_at_least=2e6), "gflops": 1, "result_nnz": 1})
            with unittest.mock.patch.object(tables, "recorded", records_.get):
                text = tables.products(record(one, gpu="NVIDIA H200", gpu_sms="10", gpu_copy_bandwidth_bytes_per_second="1e9"), "08_")
            self.assertEqual([table(text, "matrix")[1][0].get(title, "") for title in ("memory", "L2", "issue", "L1 hits")], expected)
        self.assertEqual(tables.limits(row("08_x/a", 0, 8e-3), record(gpu="GPU", gpu_copy_bandwidth_bytes_per_second="1")["context"]), {})


class Statuses(unittest.TestCase):
    """Only what passed its check has a time that counts."""

    def test_what_is_not_good_is_left_out_and_what_is_unknown_is_refused(self):
        good = row("01_x/one", 0, 2e-3)
        of = lambda status: tables.timed_rows(record(good, {**row("01_x/bad", 0, 1e-3), "status": status}))
        self.assertEqual([of(status) for status in ("wrong", "failed", "skipped")], [[good]] * 3)
        with self.assertRaisesRegex(SystemExit, "tables: 01_x/bad: there is no status 'doubtful'"):
            of("doubtful")


class StepsTable(unittest.TestCase):
    """What a step is worth is told of one entry, on all matrices."""

    def test_one_entry(self):
        """Neither the best of each matrix, nor the one that ran only where it is good, nor the one that is most often first."""
        medians = {"s/steady": [2, 2, 2], "s/often": [1.9, 1.9, 9], "s/easy": [1], "vendor/a": [1, 1, 1]}
        times = tables.least_times(on(f"m{k}", row(entry, 0, median)) for entry, of in medians.items() for k, median in enumerate(of))
        self.assertEqual((tables.best_entry(times, "s"), tables.best_entry(times, "u")), ("s/steady", None))


class Values(unittest.TestCase):
    """Numbers in prose."""

    def setUp(self):
        one, other = row("05_x/a", 0, 2e-6, {"to host": 1e-6}), on(FIXED, row("05_x/a", 0, 1e-6))
        lonely = row("05_x/one", 0, 6e-6)  # on two matrices, and what it is compared with is on one of them
        self.results = record(one, row("vendor/b", 0, 3e-6), {**row("05_x/again", 0, 5e-7), "structure_reuse": True}, lonely,
                              on("gen:other:n=2", lonely),
                              *({**row("02_x/r", ranks, 1e-3 / ranks), "gflops": 12.34} for ranks in (2, 4)), other,
                              on(FIXED, row("vendor/b", 0, 6e-6)))

    def told(self, results, good, refused):
        """`good`: the words of a value, and what it is; `refused`: those of one that there is not, and why."""
        value = lambda entry, matrix, *more: tables.value(results, entry, matrix, more)
        for words, expected in good:
            with self.subTest(words=words):
                self.assertEqual(value(*words.split()), expected)
        for words, expected in refused:
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, expected):
                value(*words.split())

    def test_what_can_be_named_and_that_it_is_one_number(self):
        self.told(self.results, (("a gen:fem:nx=3 phase:to_host", "1.00 us"), ("r gen:fem:nx=3 ranks=2 gflops", "12.3"),
                                 ("again gen:fem:nx=3", "500 ns"), ("a n=407 over:vendor/", "6.00x"), ("a mean over:^vendor/", "3.00x"), ("one mean over:/b", "0.50x")), (
            ("r gen:fem:nx=3", "2 results fit; name ranks"), ("a n=408", "there is no good result of 'a' on 'n=408'"),
            ("a n=407 no_such", "there is no metric"),
            ("a n=407 over:cu", "no entry like 'cu'"), ("context no", "the context has no 'no'"), ("a n=407 phase:x", "no phase 'x'"),
            ("a n=407 without:x", "no entry has a phase 'x'"), ("a n=407 prepare without:to_host", "belongs to the time of a run"),
            ("a n=407 prepare gflops", "at a time"), ("a mean", "'mean' belongs to over:"), ("a behind gflops", "'behind' belongs to over:"),
            ("r behind over:05_x/a", "of several operations, types or ranks"), ("05_x/a n=407 per:2", "belongs to a counter"),
            ("a n=407 foo=3", "there is no metric 'foo=3'")))

    def test_speeds_over_the_library(self):
        """And where there is none of it."""
        a, b = row("05_x/a", 0, 1e-3), row("vendor/b", 0, 2e-3)
        results = record(a, b, on(FIXED, a), on(FIXED, row("vendor/b", 0, 0.5e-3)), on("gen:alone:n=1", a))
        self.assertEqual([tables.value(results, "a", which, ["over:^vendor/"]) for which in ("mean", "least", "behind")], ["~1x", "0.50x", "1 of 2"])
        self.assertNotIn("alone", tables.ratios(results, "05_"))

    def test_a_rate_of_gathers(self):
        rates = {"rates": [{"b_bytes": 299892736, "piece_bytes": 128, "bytes_per_second": 4.94e12}, {"b_bytes": 5e6, "piece_bytes": 128, "bytes_per_second": 1e13}]}
        self.told(rates, [("300MB 128", "4.9 TB/s")], [("300MB 64", "no rate of 64 bytes of a B of 300MB")])

    def test_a_time_over_that_of_another_record(self):
        """Of four ranks, C left on them, over a library's that ran alone."""
        ranked = record(row("08_x/r", 4, 9e-3, options="C distributed", compute_seconds=1e-3), row("vendor/b", 0, 1e-6),
                        row("08_x/one", 0, 3e-3, options="C distributed"), row("08_x/one", 2, 1e-3, options="C distributed"))
        with tempfile.TemporaryDirectory() as directory, unittest.mock.patch.object(tables, "ROOT", pathlib.Path(directory)):
            (tables.ROOT / "results").mkdir()
            (tables.ROOT / "results/alone.json").write_text(json.dumps(record(row("vendor/b", 0, 2.5e-3), {**row("vendor/reuse", 0, 1e-6), "structure_reuse": True})))
            mine = f"r {FEM} ranks=4"
            self.told(ranked, ((f"{mine} clock:compute_seconds in:alone.json over:^vendor/", "2.50x"),
                               (f"{mine} clock:compute_seconds over:/one", "3.00x")),  # one process alone
                      ((f"{mine} over:^vendor/", "no entry like"), (f"{mine} clock:no in:alone.json over:^vendor/", "there is no metric 'no'"),
                       (f"r {FEM} in:no.json over:x", "there is no record 'no.json'"), (f"{mine} clock:compute_seconds", "belongs to over:")))

    def test_a_counter(self):
        cases = {"cases": [{"matrix": "gen:fixed:n=512,zeros=0.8", "options": "", "entry": "06_x/a", "status": "good", "local_loads": 1234567.0,
                            "load_requests": 500.0, "no_loads": 0.0}]}
        self.told(cases, (("a n=512 local_loads", "1,234,567"), ("a n=512 load_requests per:20 options=", "25"),
                          ("a n=512 local_loads per:load_requests digits=1", "2469.1")),
                  (("a n=512 local_loads per:lods", "there is no counter 'lods'"), ("a n=512 local_loads per:no_loads", "'no_loads' is 0")))

    def test_a_page_with_a_planted_wrong_number_is_found(self):
        """The whole way: a page of a tree of its own, one of whose numbers is not what the record says."""
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for folder in ("tools", "05_x", "results/gpu", "data"):
                (root / folder).mkdir(parents=True)
            text = (ROOT / "tools/tables.py").read_text()
            (root / "tools/tables.py").write_text(re.sub(r"^TOUR = \(.*?^\)$", "TOUR = ()", text, flags=re.DOTALL | re.MULTILINE))
            shutil.copy(ROOT / "tools/record.py", root / "tools")
            (root / "results/gpu/x.json").write_text(json.dumps(self.results))
            page = root / "05_x/measured.md"
            page.write_text("It takes <!-- value gpu/x.json\n05_x/a n=407 -->7.00 us<!-- /value -->, and <!-- value results/no.json a b -->1 s<!-- /value -->.\n")
            run = lambda *words: subprocess.run([sys.executable, root / "tools/tables.py", *words], capture_output=True, text=True, timeout=60, check=False)
            run()
            right = page.read_text()
            self.assertEqual(right, "It takes <!-- value gpu/x.json\n05_x/a n=407 -->1.00 us<!-- /value -->, and <!-- value results/no.json a b -->(no record yet)<!-- /value -->.\n")
            wrong = right.replace("1.00 us", "1.10 us")
            for text, word, code, shown, said in (
                    (right, "--check", 0, "^$", "no such"), (wrong, "--check", 1, "^not what the results say: 05_x/measured.md\n$", "no such"),
                    (wrong, "--help", 0, "--check", "^$"), (wrong, "--chek", 2, "^$", "unrecognized arguments: --chek"),
                    (wrong, "x", 2, "^$", "unrecognized arguments: x"),
                    ("<!-- value gpu/x.json a -->1<!-- /value -->", "--check", 1, "^$", "names no FILE, ENTRY and MATRIX"),
                    ("<!-- value gpu/x.json a n=407 -->1 us", "--check", 1, "^$", "not closed"),
                    ("<!-- value gpu/x.json z n=407 -->1<!-- /value -->", "--check", 1, "^$",
                     "05_x/measured.md: 'value gpu/x.json z n=407': there is no good result")):
                page.write_text(text)
                done = run(word)
                self.assertEqual((done.returncode, page.read_text()), (code, text), word)
                self.assertRegex(done.stdout, shown)
                self.assertRegex(done.stderr, said)


class Parts(unittest.TestCase):
    """Records whose results stand in one table."""

    def test_of_one_version_or_none(self):
        with tempfile.TemporaryDirectory() as play:
            files = tuple(pathlib.Path(play) / name for name in ("small.json", "huge.json"))
            def write(*origins, bare=False):
                for file, origin, nnz in zip(files, origins, (7, 9)):
                    one = row("07_a/" + file.stem, 0, 1e-3)
                    one["problem"]["nnz"] = nnz
                    made = {"source_digest": origin[0], "gpu": origin[1]}
                    file.write_text(json.dumps({"results": [one], **made} if bare else record(one, **made)))
                tables.merged.cache_clear()
            for bare in (False, True):  # as of stages run, and as of the scripts
                write("aG", "aG", bare=bare)
                self.assertEqual([r["entry"] for r in tables.merged(files[::-1])["results"]], ["07_a/small", "07_a/huge"])
                for other in ("bG", "aH"):
                    write("aG", other, bare=bare)
                    with self.assertRaisesRegex(SystemExit, "several versions: huge.json, small.json are of different sources or GPUs"):
                        tables.merged(files)


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib (Debian: python3-matplotlib)")
class Pictures(unittest.TestCase):
    """The pictures of tools/draw_curve.py are what it makes of the records."""

    def parts(self, picture):
        """The numbers of each line and bar, and the words."""
        paths = {name: list(map(float, re.findall(r"-?[\d.]+", path)))
                 for name, path in re.findall(r'<g id="(\w+:[^"]+)">\s*<path d="([^"]*)"', picture)}
        return paths, re.findall(r">([^<>]*\w[^<>]*)</text>", picture)

    def apart(self, picture, draw, results):
        """How far, in the picture's units, the picture lies from one that is drawn of these results; and whether the words are the same."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "drawn.svg")
            draw(results, path)
            (paths, words), (drawn, drawn_words) = self.parts((ROOT / picture).read_text()), self.parts(path.read_text())
        self.assertEqual({name: len(numbers) for name, numbers in paths.items()}, {name: len(numbers) for name, numbers in drawn.items()})
        return max(abs(a - b) for name, numbers in paths.items() for a, b in zip(numbers, drawn[name])), words == drawn_words

    def check(self, picture, draw, results, *changes):
        """Each change, (rows, what it does to a row, whether the words stay), is seen."""
        far, same_words = self.apart(picture, draw, results)
        self.assertTrue(far < 0.1 and same_words, f"{far} apart: run tools/draw_curve.py")
        for is_changed, change, words_stay in changes:
            changed = copy.deepcopy(results)
            for r in (r for part in (changed if isinstance(changed, list) else [changed]) for r in part["results"] if is_changed(r)):
                change(r)
            far, same_words = self.apart(picture, draw, changed)
            self.assertGreater(far, 0.3)
            self.assertEqual(same_words, words_stay)

    def test_lines_bars_and_words_of_the_curve(self):
        slower = lambda r: r["seconds"]["run"].update(median=1.05 * tables.median(r))
        of_size = lambda n: lambda r: r["entry"] == "06_cuda_register/row_per_thread" and f"n={n}," in r["problem"]["matrix"]
        self.check(draw_curve.PICTURE, draw_curve.draw, records.read(ROOT / draw_curve.RECORD),
                   (of_size(512), slower, True), (of_size(draw_curve.SIZE), slower, False))  # in a line, and in a bar

    def test_lines_and_words_of_several_gpus(self):
        of = lambda r: r["entry"] == "08_spgemm_multigpu/multi_blocks" and r["ranks"] == 4 and r["problem"]["matrix"] == draw_curve.UNIFORM
        made = draw_curve.of_several_gpus()
        self.check(draw_curve.GPUS_PICTURE, draw_curve.draw_gpus, made,
                   (of, lambda r: r["seconds"].update(prepare=1.05 * r["seconds"]["prepare"]), True),
                   (of, lambda r: r["metrics"]["compute_seconds"].update(value=1.05 * tables.measured(r, "compute_seconds")), True))
        older = [{**part, "context": {**part["context"], "source_digest": "0" * 64}} for part in made]  # none is older than another
        self.assertFalse(self.apart(draw_curve.GPUS_PICTURE, draw_curve.draw_gpus, older)[1])


def result(entry, samples, matrix="gen:fem:nx=3", status="good", busy=None, **more):
    """A row as `stages run --json` writes it."""
    problem = {"matrix": matrix, "options": "", "operation": "spmv", "type": "f32", "rows": 9, "cols": 9, "nnz": 20, "result_cols": 1, "products": 1, "multiplications": 20}
    row = {"problem": problem, "entry": entry, "idea": f"the idea of {entry}", "previous": "", "peer": entry.startswith("vendor/"), "structure_reuse": False, "status": status, "reason": "",
           "note": "", "simulated": False, "mpi": False, "ranks": 1, "metrics": {}}
    if samples:
        median = sorted(samples)[len(samples) // 2]
        row |= {"check": {"passed": True, "rows": 9, "rows_checked": 4, "sampled": True, "sums": 4, "sums_not_judged": 0, "worst_share_of_bound": 0.1},
                "seconds": {"prepare": 3.14159265e-3, "prepare_noise": 0.25, "load": 1e-5, "fetch": 1e-5, "phases": {"to host": 1.25e-6},
                            "run": {"median": median, "q1": min(samples), "q3": max(samples), "min": min(samples), "max": max(samples), "samples": samples,
                                    "processes": [], "noise": 0.2345678 if len(samples) > 5 else None}, **({"busy": busy} if busy else {})},
                "operations": 40.0, "model_bytes": 196.0, "memory_bytes": 400.0, "result_nnz": 0, "gflops": 40 / median / 1e9, "bandwidth_share": 0.0123456789,
                "speedup_previous": None, "speedup_peer": 2.0, "speedup_serial": None, "break_even_products": None, "break_even_known": True}
    return row | more


SAMPLES = [(20 + k) * 1.00000077e-6 for k in range(9)]


class Records(unittest.TestCase):
    """tools/record.py: what is kept of results, and read again."""

    RESULTS = {"schema_version": 1, "context": {"cpu": "CPU", "gpu": "none", "date": "2026-11-22T00:00:00Z", "source_digest": "0123456789abcdef", "command": "stages run", "backend": "cpu"}, "results": [
        result("01_x/a", SAMPLES, metrics={"plan_spread": {"value": 0.0123456789, "unit": ""}}),
        result("01_x/a", SAMPLES[:3], "gen:other:n=2", metrics={"plans": {"value": 3.0, "unit": ""}, "lost": {"value": None, "unit": ""}}, note="a note"),
        result("01_x/b", None, status="wrong", reason="element (0, 0) is NaN"),
        result("01_x/c", None, status="skipped", reason="needs 4 GB"),
        result("01_x/d", SAMPLES, structure_reuse=True, busy={"median": 1.5e-5, "noise": 0.01}), result("vendor/e", SAMPLES),
        # What differs from the entry's first row, and from the problem's, is of the row.
        result("01_x/d", SAMPLES, check={**result("", SAMPLES)["check"], "rows_checked": 9, "sums_not_judged": 1}, result_nnz=7), result("vendor/e", SAMPLES, simulated=True),
        *(result("02_x/r", [t / ranks for t in SAMPLES], mpi=True, ranks=ranks, simulated=True,
                 metrics={name: {"value": value, "unit": ""} for name, value in CLOCKS.items()}) for ranks in (1, 2, 4))]}

    def read_again(self, results):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "x.json")
            path.write_text(json.dumps(results))
            records.pack(path)
            self.assertEqual([p.name for p in path.parent.iterdir()], ["x.json"])
            text = path.read_text()
            records.pack(path)
            self.assertEqual(path.read_text(), text, "a record stays as it is")
            return records.read(path), text

    def run_of(self, path, rows, noise, processes):
        """A file of these rows, which are known so well, of so many processes."""
        for row in rows:
            row["seconds"]["run"] |= {"noise": noise, "processes": list(processes)}
        path.write_text(json.dumps({**self.RESULTS, "results": rows}))
        return path

    def test_equal_runs(self):
        """tools/same_again.py: of two runs, whose rows are known to 1 %, one moved by 5 %; and what is 5 % slower is told of one in two."""
        def run(directory, name, *factors):
            rows = [result("vendor/e", SAMPLES), *(result(f"01_x/{k}", SAMPLES, busy={"median": 24e-6 * factor, "noise": 0.01}) for k, factor in enumerate(factors))]
            records.pack(self.run_of(pathlib.Path(directory, f"spmv-{name}.json"), rows, 0.01, [24e-6] * 3))
        with tempfile.TemporaryDirectory() as directory:
            run(directory, "1", 1, 1, 1, 1)
            run(directory, "2", 1, 0.95, 1.005, 1)
            run(directory, "slower_5", 1.05, 1, 1.05, 1)
            text = same_again.tables(pathlib.Path(directory))
        self.assertIn("| device's time | 1 of 4 (25.0 %) | 0 of 4 (0.0 %) | 3 of 4 (75.0 %) | 1 of 4 (25.0 %) | 0.50 % | 5.13 % | 5.13 % |", text)
        self.assertIn("| whole time, not host-bound | 0 of 4 (0.0 %)", text)
        self.assertIn("| 5 % longer, above 20 us | 2 of 4 (50.0 %) |", text)
        self.assertIn("(2 runs of 3 processes; CPU, 2026-11-22, sources 0123456789ab)", text)

    def test_controls_are_those_of_similar_times(self):
        """A row of 24 us is held against five libraries of as much, and not against one of a second that moved by 30 %; and against what is known of
        medians of three processes, where the next one's may lie 4 % beside."""
        def run(directory, name, factor, of_far, noise=0.01, processes=()):
            times = [*(("vendor/near", k, 24e-6) for k in range(5)), ("vendor/far", 0, of_far), ("01_x/a", 0, 24e-6 * factor)]
            rows = [result(f"{entry}{k}", [took] * 9) for entry, k, took in times]
            return report_results.read(self.run_of(pathlib.Path(directory, name), rows, noise, processes))
        with tempfile.TemporaryDirectory() as directory:
            for old, new in (((1, 1), (1.1, 1.3)), ((1, 1, 0.04, [1] * 3), (1.05, 1, 0.04, [1] * 3))):
                files = [run(directory, "old.json", *old), run(directory, "new.json", *new)]
                self.assertEqual([p.verdict for p in verdicts.compare(*files, 0.02).pairs], ["control"] * 6 + ["slower"])

    def test_what_is_read_is_what_was_written(self):
        again, text = self.read_again(self.RESULTS)
        self.assertEqual([again[name] for name in ("schema_version", "context")], [self.RESULTS[name] for name in ("schema_version", "context")])
        self.assertEqual(len(again["results"]), len(self.RESULTS["results"]))
        for new, old in zip(again["results"], self.RESULTS["results"]):
            for name in ("problem", "entry", "idea", "peer", "structure_reuse", "status", "reason", "note", "simulated", "mpi", "ranks", "operations", "result_nnz", "model_bytes"):
                self.assertEqual(new.get(name), old.get(name), (old["entry"], name))
            self.assertEqual({name: m["value"] for name, m in new["metrics"].items() if m["value"] is not None},
                             {name: float(f"{m['value']:.6g}") for name, m in old["metrics"].items() if m["value"] is not None})
            self.assertEqual("seconds" in new, "seconds" in old)
            if "seconds" in old:
                run, was = new["seconds"]["run"], old["seconds"]["run"]
                self.assertEqual(run["samples"], len(was["samples"]))
                for name, digits in (("median", 7), ("q1", 5), ("q3", 5), ("noise", 4)):
                    self.assertEqual(run[name], None if was[name] is None else float(f"{was[name]:.{digits}g}"), name)
                self.assertEqual([new["seconds"].get(name) for name in ("prepare", "prepare_noise", "phases", "busy")],
                                 [3.1416e-3, 0.25, {"to host": 1.25e-6}, old["seconds"].get("busy")])
                self.assertEqual(run["processes"], 1)
                self.assertAlmostEqual(new["gflops"] / old["gflops"], 1, places=6)
                self.assertEqual([new[name] for name in ("rows_checked", "sums_not_judged")], [old["check"][name] for name in ("rows_checked", "sums_not_judged")])
                self.assertEqual(new["bandwidth_share"], 0.012346)  # not 0.01235, which three digits may show as 0.0124
        self.assertEqual(text.count('\n{"entry"'), 11, "a line for each row")
        self.assertEqual(text.count("gen:fem:nx=3"), 1)
        self.assertNotIn("worst", text)

    def test_three_digits_stay_three_digits(self):
        """3.5949999e-06 is no 3.595e-06, which would be shown as 3.60 us."""
        for value, kept in ((3.59499999e-06, 3.59499999e-06), (3.595e-06, 3.595e-06), (3.59512345e-06, 3.595123e-06), (12345678.0, 12345678),
                            (-3.5950001, -3.5950001), (math.inf, math.inf)):
            self.assertEqual(records.rounded(value, 7), kept)
            if value < 1e-5:
                self.assertEqual(f"{records.rounded(value, 4) / 1e-6:.2f}", f"{value / 1e-6:.2f}")

    def test_other_records_keep_their_fields(self):
        costs = {"schema_version": 1, "matrices": [{"matrix": "a", "seconds": {"rules": 1.23456789e-3, "one": 2e-3}, "again": {"rules": 1e-3}}, {"matrix": "b", "seconds": {}, "again": {}},
                                                   {"matrix": "c", "seconds": {"two": 3e-3}, "left_out": 2}]}
        again, text = self.read_again(costs)
        self.assertEqual({name: again[name] for name in costs}, json.loads(json.dumps(costs).replace("1.23456789", "1.234568").replace("0.00123456789", "0.001234568")))
        self.assertEqual(text.count('"two"'), 1)
        counts = {"gpu": "GPU", "cases": [{"entry": "a", "instructions": 123456789.0, "seconds": 1.23456789e-5, "kernels": [{"name": "k"}]}], "not_counted": []}
        self.assertEqual(self.read_again(counts)[0], {**counts, "cases": [{**counts["cases"][0], "seconds": 1.234568e-5}]})
        verified = {"wanted": "all", "steps": [{"name": "x", "passed": True}]}
        self.assertEqual(self.read_again(verified)[1], json.dumps(verified))

    def test_the_program(self):
        with tempfile.TemporaryDirectory() as directory:
            path, results = pathlib.Path(directory, "x.json"), json.dumps(self.RESULTS)
            path.write_text(results)
            run = lambda *words: subprocess.run([sys.executable, ROOT / "tools/record.py", *words], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run("pack", path).returncode, 0)
            lines = run("show", path, "01_x/").stdout.splitlines()
            self.assertEqual([" ".join(line.split()[:2]) for line in lines[1:]],
                             ["gen:fem:nx=3 01_x/a", "gen:other:n=2 01_x/a", "gen:fem:nx=3 01_x/b", "gen:fem:nx=3 01_x/c",
                              *["gen:fem:nx=3 01_x/d"] * 2])
            self.assertRegex(lines[1], r"1 +24\.0 us +\d+\.\d % +to host 1\.25 us$")
            self.assertIn("wrong: element (0, 0) is NaN", lines[3])
            for words, text, expected in ((["pack"], results, "tools/record.py pack FILE"), (["pak", path], results, "tools/record.py pack FILE"),
                                          (["pack", path.parent / "no"], results, "no: No such file"),
                                          (["pack", path], "{", "is nothing to make a record of"),
                                          (["pack", path], '{"context": {}, "results": [{}]}', "is nothing to make a record of"),
                                          (["show", path], "[]", "is no record"), (["show", path, "("], results, "is no regular expression")):
                path.write_text(text)
                done = run(*words)
                self.assertEqual((done.returncode, path.read_text()), (2, text), (words, done.stderr))
                self.assertIn(expected, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


class Readmes(unittest.TestCase):
    def test_the_sample_of_the_steps_is_of_these_records(self):
        """The root README shows what run.sh ends with; its times in records are those of data/records.tsv."""
        lines = [line.split("\t") for line in (ROOT / "data/records.tsv").read_text().splitlines() if not line.startswith("#")]
        recorded = {entry: (tables.seconds(float(time)), f"{machine}: {what}") for entry, time, what, machine, *_ in lines}
        sample = re.search(r"      step +plainest entry.*\n((?:      \d.*\n)+)", (ROOT / "README.md").read_text())[1]
        rows = [re.split(r" {2,}", line.strip()) for line in sample.splitlines()]
        self.assertEqual([row[0] for row in rows], sorted({entry.split("/")[0] for entry in recorded}))
        for step, entries, _, _, times, what in rows:
            names = [f"{step}/{words.split(' on ')[0]}" for words in entries.split(" -> ")]
            self.assertEqual(times, " -> ".join(recorded[name][0] for name in names), step)
            self.assertEqual(what, recorded[names[-1]][1])

    def test_they_hold_what_the_records_say(self):
        done = subprocess.run([sys.executable, ROOT / "tools/tables.py", "--check"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kinds = {kind for pattern in tables.PAGES for page in ROOT.glob(pattern) for kind in re.findall("<!-- end (\\w+) -->", page.read_text())}
        self.assertLessEqual(kinds, set(tables.KINDS))


if __name__ == "__main__":
    unittest.main()
