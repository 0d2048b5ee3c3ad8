#!/usr/bin/env python3
"""Matrices in and out: files that are wrong, multiply, info, generate, memory, pipes and streams."""

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import time
from xml.etree import ElementTree

from programs import (BAD, DENSE, LIMIT, MATRIX, ROOT, SMALL, VECTOR, Case, at_most, begin, ended, host_entry, in_shell, main,
                      on_executor, with_kernels)
from played import wait_until


class BadInput(Case):
    """Each is a one-line error with file:line or the argument, exit 2, and nothing half-written."""

    def test_files(self):
        """By each command. What else may be wrong in a file lies in data/matrix_market/reject."""
        path = self.write("bad.mtx", BAD)
        self.all_refused(*((re.escape(str(path)) + ":4: .*column 9", *words) for words in (
            ["info", path], ["run", "-m", path, "--quick", *self.files, "--stage", "01"],
            ["multiply", "--with", host_entry("spgemm"), path, path, "-o", self.directory / "c.mtx"])))
        self.all_refused((r"none\.mtx: .*No such file", "info", self.directory / "none.mtx"), (str(self.directory), "info", self.directory),
                         ("gen:uniform", "info", "gen:uniform:n=2e9,nnz=1e12"), ("gen:uniform", "run", "-m", "gen:uniform:n=2e9,nnz=1e12"))

    def test_what_headers_tell_comes_before_the_first_product(self):
        wide, none = self.write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 1 1\n"), self.directory / "none.mtx"
        begun = time.monotonic()
        self.all_refused(("A is 3 x 4 and B is 40 x 40", "run", "-m", SMALL, wide, "-b", SMALL, *self.files),
                         ("a chain of products needs a square matrix", "run", "-m", SMALL, wide, "--op", "spmv", "--mode", "chain", *self.files),
                         (r"none\.mtx: .*No such file", "run", "-m", "data:reddit", none, "--op", "spgemm"))
        self.assertLess(time.monotonic() - begun, 20)

    def test_not_finite_values_cannot_be_checked(self):
        """Also where a value is beyond single precision."""
        large, path = self.write("large.mtx", MATRIX.replace("1.5", "1e39")), self.write("nan.mtx", MATRIX.replace("1.5", "nan"))
        self.good("info", large)
        self.good("info", path)
        multiply = ["multiply", "--with", host_entry("spgemm"), path, path, "-o", self.directory / "c.mtx"]
        self.all_refused((r"large\.mtx:5: ", "run", "-m", large, "--type", "f32", "--quick", "--stage", "01"),
                         (r"nan\.mtx:5: ", "run", "-m", path, "--quick", "--stage", "01"), (r"nan\.mtx:5: .*--no-check", *multiply))
        self.good(*multiply, "--no-check")

    def test_dimensions_that_do_not_match(self):
        x, out = self.write("x.mtx", VECTOR), ["-o", self.directory / "c.mtx"]
        self.all_refused(("A is 40 x 40 and B is 3 x 3", "multiply", "--with", host_entry("spgemm"), SMALL, self.write("b.mtx", MATRIX), *out),
                         ("A is 40 x 40 and B is 3 x 1", "multiply", "--with", host_entry("spmv"), SMALL, x, *out))

    def test_a_full_disk(self):
        self.refused("/dev/full", "generate", SMALL, "-o", "/dev/full")
        with open("/dev/full", "w") as full:
            self.assertIn("standard output", self.good("list", code=2, stdout=full).stderr)

    def test_allocation_that_fails(self):
        """Under a limit that the program cannot foresee, std::bad_alloc becomes a message."""
        self.refused("memory", "info", "gen:uniform:n=1e6,nnz=5e7", limits=at_most(resource.RLIMIT_AS, 700 << 20))


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
        banner, lines = self.multiply(host_entry("spgemm"), self.a)
        self.assertEqual((banner, lines[0][:2]), ("%%MatrixMarket matrix coordinate real general", (3, 3)))
        # [2 0 -1; 0 1.5 0; 4 0 0] squared
        self.assertEqual(sorted(e for e in lines[1:] if e[2] != 0), [(1, 3, -2), (2, 2, 2.25), (3, 1, 8), (3, 3, -4)])

    def test_times_what_is_dense(self):
        banner, lines = self.multiply(host_entry("spmv"), self.write("x.mtx", VECTOR))
        self.assertEqual((banner, lines), ("%%MatrixMarket matrix array real general", [(3, 1), (-1,), (3,), (4,)]))
        _, lines = self.multiply(host_entry("spmm"), self.write("b.mtx", DENSE), "--type", "f32")
        self.assertEqual(lines, [(3, 2), (-1,), (3,), (4,), (2,), (7.5,), (16,)])

    def test_what_is_refused(self):
        x, b = self.write("x.mtx", VECTOR), self.write("b.mtx", DENSE)
        for expected, operation, *words in (("is a sparse matrix, which makes the product sparse times sparse", "spmv", self.a),
                                            ("is a dense matrix", "spgemm", x),
                                            ("more than one column", "spmv", b), ("--max-memory", "spgemm", self.a, "--max-memory", "1e-12")):
            self.refused(expected, "multiply", "--with", host_entry(operation), self.a, *words, "-o", self.c)

    def test_sums_beyond_the_range(self):
        huge = self.write("huge.mtx", "%%MatrixMarket matrix array real general\n2 20\n" + "3e38\n" * 40)
        x = self.write("x.mtx", "%%MatrixMarket matrix array real general\n20 1\n" + "1\n" * 20)
        words = ("multiply", "--with", host_entry("spmv"), huge, x, "-o", self.c)
        self.refused("no result can be judged: .*--type f64.*--no-check", *words, "--type", "f32")
        self.assertIn("not checked", self.good(*words, "--type", "f32", "--no-check").stdout)
        self.assertIn(", checked", self.good(*words, "--type", "f64").stdout)
        some = self.write("some.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 3e38\n1 2 3e38\n2 2 1\n")
        square = self.good("multiply", "--with", host_entry("spgemm"), some, some, "-o", self.c, "--type", "f32").stdout
        self.assertRegex(square, r"checked: 2 of 3 sums beyond the type's range: not judged$")

    @on_executor
    def test_on_the_executor(self):
        """Nothing is timed there; and C, which has to lie on the host, too, is counted before it is made."""
        words = ("multiply", "--with", "08_spgemm_multigpu/binned")
        self.assertRegex(self.good(*words, self.a, self.a, "-o", self.c).stdout, r"by 08_spgemm_multigpu/binned, not timed \(on the executor\), checked$")
        column, row = ("gen:fixed:rows=23200,cols=1,per_row=1", "gen:fixed:rows=1,cols=23200,per_row=23200")  # C of 4.3 GB in f32
        self.refused(r"needs 8\.\d+ GB of memory on the host, for C, the limit is 6\.00 GB \(--max-memory\)", *words, column, row, "--type", "f32", "--max-memory", "6", "-o", self.c,
                     limits=at_most(resource.RLIMIT_AS, 1 << 32))

class InfoAndGenerate(Case):
    def test_info_of_the_machine(self):
        text, facts = self.good("info").stdout, json.loads(self.good("info", "--json").stdout)
        self.assertRegex(text, r"copy_bandwidth_bytes_per_second +[\d.]+ [GM]B/s\n")
        for name in ("cpu", "cpus", "cpu_cache_bytes", "gpu", "memory", "copy_bandwidth_bytes_per_second", "compiler"):
            self.assertIn(name, facts)
            self.assertIn(f"  {name} ", text)
        self.assertGreater(float(facts["copy_bandwidth_bytes_per_second"]), 1e8)
        self.assertNotIn("date", facts)

    def test_info(self):
        text = self.good("info", "data:fem").stdout
        for word in ("non-zeros", "symmetr", "C = A A", "products", "█"):
            self.assertIn(word, text)
        long = self.good("info", "gen:fixed:rows=30,cols=5000,per_row=600").stdout
        self.assertRegex(long, r"rows\n +512 - 1,023 +30  █")  # nothing stands above the shortest row
        self.assertRegex(long, r"C = A A\^T  .*\n(.*\n)+    the other +10,800,000 products\n")

    @with_kernels
    def test_info_tells_which_forms_are_taken(self):
        """As the plans do, on a device of that size, and why; of SpGEMM the rows of each form."""
        for matrix in ("gen:twin:youtube,shrink=256", "gen:fixed:n=2000,per_row=200"):
            of = dict(re.findall(r"(?m)^  (\S+) on 132 SMs with 50 MiB of L2: (.*)$", self.good("info", matrix).stdout))
            self.good("run", "-m", matrix, "--filter", "0[57]_.*/adaptive|/binned", "--json", self.json, env={"STAGES_DEVICE_SMS": "132", "STAGES_DEVICE_L2": "50"})
            *rows, last = json.loads(self.json.read_text())["results"]
            for row in rows:
                self.assertRegex(of[row["entry"]], r": \w+ \S+ (<|>=) ")
                self.assertEqual(of[row["entry"]].split(": ")[0], row["note"].split(";")[0])
            if last["status"] == "good":
                self.assertEqual({f"rows_{form}": int(number) for number, form in re.findall(r"(\d+) (\w+)", of["08_spgemm_multigpu/binned"])},
                                 {name: metric["value"] for name, metric in last["metrics"].items() if name.startswith("rows_") and metric["value"]})
        self.assertIn("needs 80", of["08_spgemm_multigpu/binned"])
        self.assertRegex(self.good("info", matrix, "--n-cols", "33").stdout, "07_spmm/adaptive on 132 SMs with 50 MiB of L2: (balanced|dense_tiles)")

    def test_many_empty_columns_take_no_memory(self):
        """And a run on them is skipped in time."""
        wide = self.write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n1 2147483647 1\n1 2147483647 3\n")
        none = self.write("none.mtx", "%%MatrixMarket matrix array real general\n0 2147483647\n")
        for source, there in ((wide, 1), (none, 0), ("gen:uniform:rows=1,cols=2147483647,nnz=1", 1)):
            info = json.loads(self.good("info", source, "--json", limits=at_most(resource.RLIMIT_AS, 1 << 30)).stdout)
            self.assertEqual((info["cols"], info["nnz"], info["empty_cols"], info["square"]["products"]),
                             (2147483647, there, 2147483647 - there, there))
            begun = time.monotonic()
            results, _ = self.results("-m", source, code=77, limits=at_most(resource.RLIMIT_AS, 6 << 30))
            self.assertLess(time.monotonic() - begun, 20)
            self.assertEqual({(row["problem"]["operation"], row["status"]) for row in results["results"]},
                             {(o, "skipped") for o in ("spmv", "spmm", "spgemm")})
            (reason,) = {row["reason"] for row in results["results"] if row["problem"]["operation"] == "spgemm"}
            self.assertRegex(reason, r"[01] x 2147483647 with [01] entries needs 163 GB of memory, the limit is \d\.\d\d GB where most rows or "
                             r"columns are empty \(--max-memory\)")

    def test_many_empty_rows_take_their_row_pointers_and_no_more(self):
        limits = at_most(resource.RLIMIT_AS, 1 << 30)
        head = "%%MatrixMarket matrix coordinate real general\n"
        for rows, cols in ((60000000, 1), (60000000, 60000000)):  # 480 MB of row pointers
            many = self.write("many.mtx", head + f"{rows} {cols} 2\n3 1 1\n1 1 1\n")
            info = json.loads(self.good("info", many, "--json", limits=limits).stdout)
            self.assertEqual((info["rows"], info["empty_rows"], info["empty_cols"]), (rows, rows - 2, cols - 1))
            self.assertEqual((info["square"]["rows"], info["square"]["products"]), (rows, 2) if cols > 1 else (1, 2))
        self.all_refused((r"more\.mtx:2: 2147483647 rows for 1 entries take 17\.18 GB, and the limit is 1\.00 GB where most rows are empty",
                          "info", self.write("more.mtx", head + "2147483647 1 1\n1 1 1\n")),
                         (r"none\.mtx:2: 2147483647 rows for 0 entries", "info",
                          self.write("none.mtx", "%%MatrixMarket matrix array real general\n2147483647 0\n")), limits=limits)
        self.all_refused((r"many\.mtx:2: 130000000 rows for 1 entries take 1\.04 GB", "info",
                          self.write("many.mtx", head + "130000000 1 1\n1 1 1\n")),
                         ("where most rows are empty", "info", "gen:uniform:rows=130000000,cols=1,nnz=1"))
        many = self.write("many.mtx", head + "100000000 1 1\n1 1 1\n")  # a run is skipped before it takes memory
        done = self.good("run", "-m", many, "--quick", "--stage", "01", "--all", code=77, limits=at_most(resource.RLIMIT_AS, 3 << 30))
        self.assertRegex(done.stdout, r"needs 7\.60 GB of memory, the limit is 1\.00 GB where most rows or columns are empty \(--max-memory\)")

    def test_the_hypersparse_lesson_of_step_1_is_multiplied(self):
        """Ten million rows, mostly empty, in a spec: whoever writes it wants them."""
        done = self.good("run", "-m", "gen:hypersparse:n=1e7,nnz=1e5", "--op", "spgemm", "--time-budget", "0.05", "--filter", "01_cpu_serial/hypersparse", "--all")
        self.assertRegex(done.stdout, r"(?m)^1 good, 0 wrong, 0 failed, 0 skipped$")

    def test_a_wide_second_factor_is_refused_before_it_takes_memory(self):
        banner = "%%MatrixMarket matrix coordinate real general\n"
        one, wide = self.write("one.mtx", banner + "1 1 1\n1 1 2\n"), self.write("wide.mtx", banner + "1 730000000 1\n1 730000000 3\n")
        self.refused(r"wide.mtx: 1 x 730000000 with 1 entries needs 17\.5 GB of memory", "multiply", one, wide, "--with", "01_cpu_serial/gustavson_dense",
                     "-o", self.directory / "c.mtx")
        done = self.good("run", "-m", one, "-b", wide, "--op", "spgemm", "--quick", "--stage", "01", "--all", code=77)
        self.assertRegex(done.stdout, r"wide.mtx: 1 x 730000000 with 1 entries needs .* GB of memory")

    def test_info_json(self):
        info = json.loads(self.good("info", self.write("a.mtx", MATRIX), "--json").stdout)
        self.assertEqual([info[name] for name in ("rows", "cols", "nnz", "structurally_symmetric", "numerically_symmetric")], [3, 3, 4, True, False])
        self.assertEqual((info["square"]["products"], info["square"]["nnz_exact"]), (2 + 1 + 1 + 2, True))
        self.assertEqual(sum(c["rows"] for c in info["row_length_histogram"]), 3)

    def test_generated_file_is_the_matrix(self):
        spec = "gen:rmat:scale=8,edge_factor=4"
        for path in (self.directory / "g.mtx", self.directory / "g.mtx.gz"):
            self.good("generate", spec, "-o", path)
            made, wanted = ({**json.loads(self.good("info", matrix, "--json").stdout), "matrix": ""} for matrix in (path, spec))
            self.assertEqual(made, wanted)


class Pictures(Case):
    def test_a_picture(self):
        """It is XML with words for who cannot see it; the committed one is what its command makes."""
        drawn = self.directory / "a.svg"
        for name in ("a.mtx", "<&>\".mtx"):
            self.good("info", self.write(name, MATRIX), "--picture", drawn)
            root = ElementTree.parse(drawn).getroot()
            title = root.find("{http://www.w3.org/2000/svg}title").text
            self.assertTrue(title.endswith(f"{name}, 3 x 3"), title)
        json.loads(self.good("info", "gen:twin:am", "--json", "--picture", drawn).stdout)
        self.assertEqual(drawn.read_text(), (ROOT / "07_spmm/am.svg").read_text())
        self.good("info", SMALL, "--picture", drawn, "--rows", "38:40")
        self.assertIn("rows 38 to 39 of 40", drawn.read_text())

    def test_what_is_refused(self):
        path, drawn = self.write("a.mtx", MATRIX), ["--picture", self.directory / "a.svg"]
        self.all_refused(*((rf"--rows {rows}: the matrix has rows 0 to 2; give A:B with 0 <= A < B <= 3", "info", path, *drawn, "--rows", rows)
                           for rows in ("0:4", "1:1", "2:1", "-1:2")),
                         *((rf"--rows {rows}: give two whole numbers", "info", path, *drawn, "--rows", rows)
                           for rows in ("a:b", "1", ":2", "1:", "1:2:3", "0:1.5", "0:99999999999")),
                         ("--rows 0:1: .*add --picture", "info", path, "--rows", "0:1"), ("no matrix to draw is named", "info", *drawn),
                         ("not expected: a.mtx", "info", SMALL, "a.mtx", *drawn), ("that is the matrix which is read", "info", path, "--picture", path),
                         ("a.png: it is drawn as SVG; give a name that ends in .svg", "info", path, "--picture", self.directory / "a.png"),
                         ("none/a.svg: cannot be written", "info", path, "--picture", self.directory / "none/a.svg"))


class Convert(Case):
    """What it makes of good edge lists is in the test networkx_agrees."""

    def test_what_was_guessed_is_told(self):
        edges, out = self.write("a.csv", "from,to,w,time\n1,2,0.5,9\n1,2,7,9\n"), self.directory / "a.mtx"
        done = self.good("convert", edges, "-o", out)
        self.assertRegex(done.stdout, r"a\.csv: a comma between fields, nodes from 1, directed, weights; header 'from,to,w,time' left out; further "
                                      r"columns left out; 1 repeated edge kept with the last weight\n.*a\.mtx: 2 x 2, 1 non-zeros\n$")
        self.assertEqual(out.read_text(), "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 7\n")
        forced = self.good("convert", edges, "-o", "/dev/stdout", "--base", "0", "--weights", "no", "--comments", "f").stdout
        self.assertEqual(forced, "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n2 3\n")
        for first in ("1 2\n2 1\n", "0 2\n2 1\n", "1 0\n2 1\n", "1 2\n0 1\n", "1 2\n2 0\n"):
            self.assertIn(f"nodes from {0 if '0' in first else 1}", self.good("convert", self.write("c.txt", first), "-o", out).stdout)
        semicolons = self.write("b.csv", "0;1;2,5\n")
        self.assertIn("the weight '2,5' is not a number", self.refused("b.csv:1", "convert", semicolons, "-o", out, "--separator", "semicolon", "--weights", "yes").stderr)

    def test_packed_text_of_many_blocks_is_as_the_plain_one(self):
        text = "".join(f"{k} {k * k % 99991}\n" for k in range(300_000))
        packed = self.directory / "many.gz"
        packed.write_bytes(gzip.compress(text.encode(), 1))
        made = [self.directory / name for name in ("plain.mtx", "packed.mtx")]
        for edges, out in zip((self.write("many.txt", text), packed), made):
            self.good("convert", edges, "-o", out)
        self.assertEqual(made[0].read_text(), made[1].read_text())

    def test_what_is_refused(self):
        out = ["-o", self.directory / "a.mtx"]
        packed = self.directory / "cut.gz"
        packed.write_bytes(gzip.compress(b"0 1\n" * 9999)[:30])
        self.all_refused(*((rf"a\.txt:{expected}", "convert", self.write(f"{number}/a.txt", text), *out, *options) for number, (expected, text, *options) in enumerate((
            ("1: the file holds no edge", ""), ("2: the file holds no edge", "# a\n# b\n"), ("1: '7' is one column", "7\n0 1\n"),
            ("2: the node -1 lies below 0", "0 1\n-1 2\n"), ("2: the node 0 lies below 1", "2 1\n0 2\n", "--base", "1"),
            ("3: the node 'x' is not a whole number", "a b\n0 1\n0 x\n"), ("1: the node '1.5' is not", "1.5 2\n"),
            ("1: the node '2147483648' lies beyond 2147483647", "0 2147483648\n"), (r"1: the node '9{30}' lies beyond", "9" * 30 + " 1\n"),
            (r"1: '\\x7fELF\\x01", "\x7fELF\x01\x00\n"), ("1: the text begins with a byte-order mark", "\ufeff0 1\n"),
            ("2: the edge has no weight", "0 1 2\n1 2\n"), ("2: the weight 'nan' is not a number", "0 1 2\n1 2 nan\n"),
            ("2: this edge has a weight, and the first has none", "0 1\n1 2 3\n"), ("1: this is a Matrix Market file already", MATRIX),
            ("1: this bipartite graph", "% bip unweighted\n1 1\n"), ("2: the node 5 is none of the 5 nodes", "0 1\n5 2\n", "--nodes", "5"),
            ("2: 2000000001 nodes take 16.00 GB, .*--compact", "0 1\n2000000000 1\n")))),
                         ("cut.gz:.*too early", "convert", packed, *out), ("none: .*No such file", "convert", self.directory / "none", *out),
                         ("--compact and --nodes", "convert", packed, *out, "--compact", "--nodes", "5"),
                         ("that is the matrix which is read", "convert", packed, "-o", packed))


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
        self.refused("pipe: nobody reads from this pipe; start its reader first", "generate", SMALL, "-o", self.pipe)
        rows = json.loads(self.through_the_pipe(*self.RUN, "--json", self.pipe))["results"]
        self.assertEqual({row["status"] for row in rows}, {"good"})
        self.assertIn("matrix,options,", self.through_the_pipe(*self.RUN, "--csv", self.pipe))
        self.assertIn("%%MatrixMarket", self.through_the_pipe("generate", SMALL, "-o", self.pipe))
        self.assertTrue(self.pipe.is_fifo())

    def test_own_streams(self):
        """A file that the shell has opened gets what is written to the stream beside what else goes there."""
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            said = self.directory / "said"
            with open(said, "w", encoding="utf-8") as file:
                self.good(*self.RUN, "--json", name, stdout=file)
            text = said.read_text()
            self.assertEqual({row["status"] for row in json.JSONDecoder().raw_decode(text)[0]["results"]}, {"good"}, name)
            self.assertRegex(text.splitlines()[-1], r"^\d good, 0 wrong", name)
        self.refused("/dev/fd/9: cannot be written", "generate", SMALL, "-o", "/dev/fd/9")
        for words in (["generate", "gen:eye:n=2"], ["multiply", "gen:eye:n=2", "gen:eye:n=2", "--with", "01_cpu_serial/gustavson_dense"]):
            with open(said, "w", encoding="utf-8") as file:
                self.assertIn("/dev/stdout: 2 x 2", self.good(*words, "-o", "/dev/stdout", stdout=file).stderr)
            self.assertEqual(json.loads(self.good("info", said, "--json").stdout)["nnz"], 2)
            self.assertEqual(in_shell("", *words, "-o", "/dev/stdout", after="2>&-").returncode, 0, "no result is lost for a remark")


class Leavings(Case):
    """What a program writes beside its results is gone when a signal ends it."""

    def test_files_that_are_being_written(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = begin("generate", "gen:uniform:rows=2e5,cols=2e5,per_row=20", "-o", self.directory / "a.mtx.gz", number=number)
            wait_until(lambda: list(self.directory.glob("a.mtx.gz.*.tmp")))
            ended(process, number)
            self.assertEqual((process.returncode, list(self.directory.iterdir())), (-number, []))


if __name__ == "__main__":
    main()
