#!/usr/bin/env python3
"""stages lens; and what the scripts of studies say."""

import json
import re
import signal

from programs import ROOT, WIDE, Case, begin, ended, entries, main, on_executor


@on_executor
class Lens(Case):
    """How it counts is tested in tests/lens; here, what the command makes of it."""

    MATRIX = "gen:uniform:rows=500,cols=500,nnz=4000"
    LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

    def counts(self, *words):
        """What --json holds, by entry, and what was printed."""
        path = self.directory / "lens.json"
        shown = self.good("lens", *words, "--json", path).stdout
        return {entry["entry"]: entry for entry in json.loads(path.read_text())["entries"]}, shown

    def test_each_line_and_its_sums(self):
        name, file = "05_cuda_csr/thread_per_row", "05_cuda_csr/3_thread_per_row.cu"
        counts, shown = self.counts(name, "-m", self.MATRIX)
        (kernel,) = counts[name]["kernels"]
        self.assertEqual(kernel["name"], "thread_per_row<float>")
        for counter in (self.LOADS, self.SECTORS):
            lines = sum(line["counters"].get(counter, 0) for line in kernel["lines"])
            self.assertEqual({lines, counts[name]["counters"][counter]}, {kernel["counters"][counter]})
        source = (ROOT / file).read_text().splitlines()
        for line in kernel["lines"]:
            self.assertEqual(line["file"], file)
            self.assertIn(f"{line['line']:>4} | {source[line['line'] - 1]}", shown)
        # A row of y is stored once, by warps of neighbours: 500 threads are 16 requests, of four sectors but the last.
        (store,) = [line["counters"] for line in kernel["lines"] if "global_st_lanes" in line["counters"]]
        of_stores = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
        self.assertEqual([store[name] for name in (of_stores.format("requests"), "global_st_lanes", of_stores.format("sectors"))], [16, 500, 63])

    def test_a_run_says_what_a_checked_kernel_asks_for(self):
        """The numbers of `stages lens`, in the row and in its metrics; what runs on the host has none. A time in the records stands there for
        exactly what it was taken of."""
        name, matrix = "03_cuda_naive/dense_row_major", "gen:fixed:n=1024,zeros=0.8"
        counts, _ = self.counts(name, "-m", matrix)
        shown = self.good("run", "-m", matrix, "--op", "spmv", "--filter", f"{name}|01_cpu_serial/csr_spmv$", "--time-budget", "0.01", "--json", self.json).stdout
        rows = {row["entry"]: row for row in json.loads(self.json.read_text())["results"]}
        self.assertEqual({key: metric["value"] for key, metric in rows[name]["metrics"].items()}, counts[name]["counted"])
        self.assertAlmostEqual(counts[name]["counted"]["sectors_a_nonzero"], counts[name]["counted"]["asked_of_L1"] / 32 / 209920, places=2)
        self.assertEqual(rows["01_cpu_serial/csr_spmv"]["metrics"], {})
        bound = counts[name]["at_least"]["seconds"]
        _, time, _, machine, *_ = next(line for line in (ROOT / "data/records.tsv").read_text().splitlines() if line.startswith(name)).split("\t")
        self.assertRegex(shown, rf" {float(time) * 1e6:.1f} us on {machine}  checked on the executor, not timed; at least {bound * 1e6:.3g} us on an NVIDIA ")

    def test_a_hub_row_is_seen(self):
        """Its warp is busier than the others, which the table of a run, the lens and its page show; where nothing is timed no column is for times."""
        slow, even, matrix = "05_cuda_csr/thread_per_row", "05_cuda_csr/balanced", "gen:twin:youtube,shrink=256"
        page = self.directory / "lens.html"
        counts, shown = self.counts(slow, even, "-m", matrix, "--html", page)
        over = {name: counts[name]["counted"]["warp_over_mean"] for name in (slow, even)}
        self.assertGreater(over[slow], 3 * over[even])
        busiest = counts[slow]["kernels"][0]["busiest_warp"]
        self.assertAlmostEqual(busiest["requests"] / busiest["mean"], over[slow], places=2)
        self.assertRegex(shown, rf"(?m)^  busiest warp +{busiest['requests']:.0f} requests, {over[slow]:.1f} times the mean$")
        ends = [f"{over[name]:.2f}" for name in (slow, even)]
        self.assertEqual([line.split()[-2:] for line in shown.splitlines() if line.startswith("warp over mean")], [ends])
        self.assertRegex(page.read_text(), rf"warp over mean +{' +'.join(ends)}&#10;")
        # The page's darkest line is its heaviest, of whichever entry.
        shades = [[float(share) for share in re.findall(r"--share: ([\d.]+)\"><td class=text>global", part)] for part in page.read_text().split("<h2>")[1:3]]
        self.assertEqual([max(of) == 0.6 for of in shades], [True, False])
        heads, *table = self.good("run", "-m", matrix, "--op", "spmv", "--stage", "05", "--json", self.json).stdout.splitlines()[1:]
        self.assertEqual(re.split("  +", heads.strip()), ["entry", "asked of L1", "sectors a nonzero", "busiest warp", "warp over mean", "block over mean"])
        (row,) = [line for line in table if line.startswith(f"  {slow} ")]
        self.assertRegex(row, rf" {busiest['requests']:.0f} +{ends[0]} +[\d.]+  checked on the executor, not timed$")
        # What nothing binds but its launch is said once.
        bounds = [line for line in table if "at least" in line]
        self.assertTrue(len(bounds) == 1 and re.fullmatch(r"  [678] rows: at least [\d.]+ us on an NVIDIA .*: launch", bounds[0]), bounds)

    def test_two_entries_side_by_side(self):
        """And all lines of a file in order; and some of the kernels."""
        names = ["05_cuda_csr/thread_per_row", "05_cuda_csr/warp_per_row"]
        counts, shown = self.counts(names[0], names[1], "-m", self.MATRIX)
        self.refused(r"--kernel nothing: 05_cuda_csr/thread_per_row has none of that name; it has thread_per_row<float>",
                     "lens", names[0], "-m", self.MATRIX, "--kernel", "nothing")
        one, _ = self.counts("08_spgemm_multigpu/binned", "-m", self.MATRIX, "--kernel", "analyse")
        self.assertEqual({"analyse" in kernel["name"] for kernel in one["08_spgemm_multigpu/binned"]["kernels"]}, {True})
        self.assertEqual(list(counts), names)
        table = shown[shown.rindex(names[0]):].splitlines()
        self.assertEqual(table[0].split(), names)
        self.assertEqual(table[1].split(), ["global", "loads", *(f"{counts[n]['counters'][self.LOADS]:,}" for n in names)])
        numbers = [int(n) for n in re.findall(r"(\d+) \| ", self.good("lens", names[0], "-m", self.MATRIX, "--all-lines").stdout)]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_every_entry_can_be_looked_at(self):
        """Each has kernels whose accesses are counted, at a line of a file that is there."""
        names = [name for name in entries(peer=False) if re.match("0[3-8]_", name) and "/multi_" not in name]
        for step in {name[:3] for name in names}:
            of_step = [name for name in names if name.startswith(step)]
            counts, _ = self.counts(*of_step, "-m", "gen:fixed:n=256,per_row=8", "--n-cols", 8)
            for name in of_step:
                lines = [line for kernel in counts[name]["kernels"] for line in kernel["lines"]]
                self.assertGreater(len(lines), 0, name)
                self.assertEqual([line for line in lines if not (ROOT / line["file"]).is_file()], [], name)

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

    # What the pages of the steps answer to their questions: page, words around the numbers, the command's, whose line and access, and
    # which numbers of it.
    ANSWERS = (
        ("03_cuda_naive/README.md", r"row by row (\S+) sectors", "03_cuda_naive/dense_row_major -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"column by column (\S+)\. With", "03_cuda_naive/dense_transposed -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"With 4 columns (\S+):", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=4,nnz=256", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: (\S+), ", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=1,nnz=256", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: \S+, (\S+) and", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=2,nnz=256", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"to 1, 2 and 8: \S+, \S+ and (\S+)\. ", "03_cuda_naive/dense_row_major -m gen:uniform:rows=256,cols=8,nnz=256", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"`dense_padded` takes (\S+), too", "03_cuda_naive/dense_padded -m gen:fixed:n=256,zeros=0.8", "a.data[", "global load", "takes"),
        ("03_cuda_naive/README.md", r"The load of x takes (\S+):", "03_cuda_naive/dense_padded -m gen:fixed:n=256,zeros=0.8", "x[j]", "global load", "takes"),
        ("04_cuda_shared/README.md", r"Rung 1's shared loads take (\S+):", "04_cuda_shared/shared_memory -m gen:fixed:n=64,zeros=0.8", "", "shared load", "takes"),
        ("04_cuda_shared/README.md", r"The store of `partial\[lane\]\[warp\]` takes (\S+) as well", "04_cuda_shared/shared_vector_and_row -m gen:fixed:n=64,zeros=0.8", "partial[lane][warp]", "shared store", "takes"),
        *(("05_cuda_csr/README.md", words, f"05_cuda_csr/{entry} -m gen:uniform:n=5000,per_row=4", "values", "global load", *columns)
          for words, entry, *columns in (
            (r"with a warp a row (\S+) lanes and (\S+) sectors", "full_warp_per_row", "lanes", "takes"),
            (r"with a thread a row (\S+) lanes \([^)]*\) and (\S+) sectors", "thread_per_row", "lanes", "takes"),
            (r"`warp_per_row` (\S+) lanes and (\S+) sectors", "warp_per_row", "lanes", "takes"),
            (r"In `balanced_shares` (\S+) lanes load", "balanced_shares", "lanes"))),
        ("05_cuda_csr/README.md", r"side by side, and (\S+) add up", "05_cuda_csr/balanced_shares -m gen:uniform:n=5000,per_row=4", "", "shared load", "lanes"),
        *(("06_cuda_register/README.md", words, f"06_cuda_register/{entry} -m gen:fixed:n=256,zeros=0.8", source, access, "takes") for words, entry, source, access in (
            (r"What it counts</summary>(\S+) and", "packed_shares", "", "shared load"), (r"What it counts</summary>\S+ and (\S+)\. ", "bank_order", "", "shared load"),
            (r"`vector_batches`: (\S+);", "vector_batches", "", "shared load"), (r"(\d+) sectors a load, not", "vector_batches", "a.values", "global load"),
            (r"sectors a load, not (\d+)\.", "packed_shares", "value[s]", "global load"))),
        *(("07_spmm/notes.md", rf"\| {words} \|", f"07_spmm/{entry} -m gen:uniform:n=1000,per_row=8 --n-cols {n}", source, "global load", *columns)
          for words, entry, n, source, *columns in (
            (r"32, a thread a row \| (\S+) \| (\S+) \| (\S+)", "thread_per_row", 32, "from[column]", "requests", "lanes", "takes"),
            (r"31 \| (\S+) \| (\S+) \| (\S+)", "warp_per_row", 31, "from[column]", "requests", "lanes", "takes"),
            (r"32 \| (\S+) \| (\S+) \| (\S+)", "warp_per_row", 32, "from[column]", "requests", "lanes", "takes"),
            (r"33 \| (\S+) \| (\S+) \| (\S+)", "warp_per_row", 33, "from[column]", "requests", "lanes", "takes"))),
        *(("08_spgemm_multigpu/notes.md", rf"\| `{entry}` \| {words}", f"08_spgemm_multigpu/{entry} -m gen:stencil:points=27,nx=8", source, access, *columns)
          for entry in ("hash_warp_per_row", "rows_of_b", "bins") for words, source, access, *columns in (
            (r"(\S+) \| (\S+) \| (\S+) \|", "claim(keys", "global load", "requests", "lanes", "takes"),
            (r"\S+ \| \S+ \| \S+ \| (\S+) \|", "keys()[s] = kFree;", "shared store", "requests of count_rows"))),
    )

    def test_answers_of_the_lessons(self):
        """The numbers with which the pages answer their questions to the lens."""
        seen = {}
        for page, words, command, source, access, *columns in self.ANSWERS:
            with self.subTest(page=page, words=words):
                stated = re.search(words, " ".join((ROOT / page).read_text().split()))
                self.assertTrue(stated, "the page says nothing of the kind")
                if command not in seen:
                    seen[command] = self.rows(*command.split())
                rows = [row for row in seen[command] if source in row["source"] and row["access"] == access]
                for number, column in zip(stated.groups(), columns, strict=True):
                    number = number.replace(",", "")
                    column, _, kernel = column.partition(" of ")
                    values = [row[column] for row in rows if not kernel or kernel + "<" in row["kernel"]]
                    values = [sum(values)] if kernel else values
                    digits = len(number.partition(".")[2])
                    self.assertIn(number, {f"{value:.{digits}f}" for value in values}, rows)

    def test_as_nsight_compute_counted(self):
        """What ncu counted on an H200 of an entry that has changed little since."""
        record = json.loads((ROOT / "results/nvidia-h200/counters_spmm.json").read_text())
        for name, apart in (("07_spmm/balanced", 0.05),):
            (case,) = [c for c in record["cases"] if (c["entry"], c["matrix"], c["options"]) == (name, "gen:twin:arxiv", "N = 32")]
            counts, _ = self.counts(name, "-m", "gen:twin:arxiv", "--n-cols", 32)
            for counter, recorded in ((self.LOADS, case["load_requests"]), (self.SECTORS, case["load_sectors"])):
                self.assertLessEqual(abs(counts[name]["counters"][counter] / recorded - 1), apart, (name, counter))

    def test_races(self):
        """None in a step; as text and JSON. Where the room is used up, what was found until then is kept, and the line is said, without the
        machine's paths."""
        name, data = "05_cuda_csr/balanced", self.directory / "races.json"
        self.refused("--html shows what was counted", "lens", name, "-m", self.MATRIX, "--races", "--html", self.directory / "races.html")
        shown = self.good("lens", name, "-m", self.MATRIX, "--races", "--json", data).stdout
        self.assertEqual(shown, f"{name}: no race\n")
        self.assertEqual(json.loads(data.read_text())["entries"], [{"entry": name, "races": [], "problem": None}])
        done = self.good("lens", "03_cuda_naive/dense_row_major", "-m", "gen:fixed:n=512,zeros=0.8", "--races", "--json", data, code=1,
                         env={"STAGES_RACES_MEMORY": "1"})
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^stages: error: 03_cuda_naive/dense_row_major: only a part was looked at: "
                         r"03_cuda_naive/1_dense_row_major\.cu:\d+: the room .* is used up here.*STAGES_RACES_MEMORY \(MiB\)\n$")
        (entry,) = json.loads(data.read_text())["entries"]
        self.assertEqual(entry["races"], [])
        self.assertIn("used up", entry["problem"])

    def test_what_was_counted_is_kept(self):
        """Where a later entry is refused, one of the two files cannot be written, or a signal comes."""
        entry, long, data, page = "05_cuda_csr/thread_per_row", "05_cuda_csr/two_arrays", self.directory / "lens.json", self.directory / "lens.html"
        for words, error in (([entry, "03_cuda_naive/dense_row_major", "-m", "gen:eye:n=4000", "--max-work", 100000, "--json", data, "--html", page], "limit on the executor"),
                             ([entry, "-m", self.MATRIX, "--json", "/dev/full", "--html", page], "/dev/full: writing stopped")):
            done = self.good("lens", *words, code=2)
            self.assertIn(error, done.stderr)
            self.assertIn(entry, done.stdout)
            self.assertIn(entry, page.read_text())
            page.unlink()
        self.assertEqual([e["entry"] for e in json.loads(data.read_text())["entries"]], [entry])
        process = begin("lens", entry, *[long] * 50, "-m", "gen:uniform:rows=20000,cols=20000,nnz=200000", "--json", data, "--html", page)
        self.assertIn(entry, process.stdout.readline())
        _, said = ended(process, signal.SIGTERM)
        found = json.loads(data.read_text())
        self.assertEqual((process.returncode, found["part"], found["entries"][0]["entry"]), (-signal.SIGTERM, "ended by SIGTERM", entry))
        self.assertIn("ended by SIGTERM: this is a part", said)
        self.assertIn("a part: ended by SIGTERM", page.read_text())

    def test_a_run_says_why_it_did_not_count(self):
        """Its checks are good all the same."""
        results, _ = self.results("-m", self.MATRIX, "--op", "spmv", "--stage", "03", "--time-budget", "0.01", env={"PATH": "/nonexistent"})
        for row in results["results"]:
            self.assertEqual(row["status"], "good")
            self.assertNotIn("asked_of_L1", row["metrics"])
            self.assertRegex(row["note"], r"not counted: objdump \(Debian: binutils\) is not on the PATH")

    def test_refused(self):
        tall = self.write("tall.mtx", "%%MatrixMarket matrix coordinate real general\n120000000 2 0\n")
        for expected, *words in (
            (r"120000000 x 2 with 0 entries needs 12\.0 GB of memory", "05_cuda_csr/thread_per_row", "-m", tall),
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
    def test_a_study_says_what_it_wants(self):
        for word, expected in (("--help", "^usage: tools/d2-study.sh .*\n$"),
                               ("no/such/stages", "^d2-study: there is no program no/such/stages; build it .*\n$")):
            done = self.good(word, program=ROOT / "tools/d2-study.sh", cwd=self.directory, code=2)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, expected)


if __name__ == "__main__":
    main()
