#!/usr/bin/env python3
"""What ncu counted: its tables read, the record that tools/counters.sh makes of them (with an ncu, a GPU and a program that are
played by scripts), and the table in a README.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import counters  # tools/counters.py
import tables  # tools/tables.py

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'


def line(*cells):
    return ",".join(f'"{cell}"' for cell in cells)


def ncu_table(metrics, units, rows):
    """A table as ncu --csv --page raw prints it, made by hand; rows: (kernel, values)."""
    lines = [HEAD + "," + line(*metrics), line(*[""] * 11, *units)]
    lines += [line(k, 4242, "stages", "127.0.0.1", name, 1, 7, "(128, 1, 1)", "(1000, 1, 1)", 0, "9.0", *values) for k, (name, values) in enumerate(rows)]
    return "\n".join(lines) + "\n"


MULTIPLY = "void stages::(anonymous namespace)::multiply<float, int, stages::Form<8, (bool)1>>(stages::Matrix<T1>, stages::Product<T1>, unsigned int)"
ADD_PARTS = "void stages::(anonymous namespace)::add_parts<float, int, (unsigned int)4>(stages::Matrix<T1>, stages::Product<T1>)"
METRICS = {"seconds": "gpu__time_duration.sum", "instructions": "smsp__inst_executed.sum", "warps_active": "sm__warps_active.avg.pct_of_peak_sustained_active",
           "dram_read_bytes": "dram__bytes_read.sum", "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}

# The programs that play their parts. This ncu does not know of compare-and-swaps, and of memory under other names than the first; it runs
# what it is given, and then says what it counted, for an entry that is named in a file, or fails.
NCU = """#!/usr/bin/env bash
if [ "$1" = --version ]; then printf 'NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1) (public-release)\\n'; exit 0; fi
if [ "$1" = --query-metrics ]; then cat "$PLAY/query.txt"; exit 0; fi
[ "$STAGES_PROFILE" = 1 ] || { echo "==ERROR== nobody asked the program to show a run"; exit 1; }
echo "$*" >> "$PLAY/asked.txt"
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 2
echo '==PROF== Connected to process 4242' > "$log"
case "$*" in
  *twin:arxiv\\ *split_rows*) echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission' >> "$log"; exit 1 ;;
  *twin:am\\ *merged*) exec sleep 30 ;;
  *twin:ppa\\ *warp_per_row*) "$@" || exit; exit 0 ;;
esac
"$@" || exit
cat "$PLAY/table.csv" >> "$log"
"""
PROGRAM = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "list":
    names = ["01_cpu_serial/csr_spmv", "03_cuda_naive/a", "03_cuda_naive/b", "05_cuda_csr/thread_per_row", "06_cuda_register/row_per_thread", "vendor/cusparse_csr"]
    entries = [{"name": name, "operation": "spmv"} for name in names] + [{"name": "03_cuda_naive/dense_output", "operation": "spgemm"}]
    print(json.dumps({"entries": entries}))
    sys.exit()
words = dict(zip(sys.argv[1:], sys.argv[2:]))
entry = words["--filter"].strip("^$")
print('"ID", says the program, is no table')
if "ppa" in words["-m"] and "balanced" in entry:
    sys.exit("stages: error: out of memory")
rows = [{"entry": entry, "status": "wrong" if "ppa" in words["-m"] and "split" in entry else "good", "reason": "C(3, 4) is 2, expected 1"}]
with open(words["--json"], "w") as file:
    json.dump({"results": rows}, file)
"""
NVIDIA_SMI = """#!/usr/bin/env bash
case $1 in --query-gpu=name) echo "NVIDIA H200" ;; --query-gpu=driver_version) echo 580.1 ;; esac
"""


class Reading(unittest.TestCase):
    def test_units_come_out_as_base_units(self):
        for text, unit, expected in (("1,234", "nsecond", 1.234e-6), ("2.5", "usecond", 2.5e-6), ("8", "us", 8e-6), ("2", "ms", 2e-3), ("3", "second", 3), ("1.5", "Gbyte", 1.5e9),
                                     ("12", "Mbyte", 12e6), ("7", "KB", 7e3), ("1,000,000", "byte", 1e6), ("4", "Msector", 4e6), ("5", "inst", 5),
                                     ("63.2", "%", 63.2), ("9", "", 9)):
            self.assertAlmostEqual(counters.number(text, unit) / expected, 1, msg=f"{text} {unit}")
        for text, unit in (("n/a", "byte"), ("(!) n/a", ""), ("", "inst")):
            self.assertIsNone(counters.number(text, unit))

    def test_names_lose_their_types(self):
        for name, expected in ((MULTIPLY, "stages::multiply"), ("void a::<unnamed>::f<&b, (int)3>(int)", "a::f"), ("plain", "plain"), ("void a::f<auto (*)(b)->c, 3>(d)", "a::f"),
                               ("void c::g<c::h<d<int>>, (bool)0>(x<y>, z)", "c::g"),
                               ("void e::<unnamed>::k<e::<unnamed>::Lanes<8, 4>, float>(x<int>)", "e::k"), ("void unnamed>::k<unnamed>::Lanes<8, 4>, float>(x<int>, unnamed>::y)", "k")):
            self.assertEqual(counters.shorter(name), expected)

    def test_a_table_among_other_lines(self):
        """Or none, or a broken one; and its sums, to which registers are not added up."""
        text = ("==PROF== Connected to process 1\nthe program's own \"words\"\n==PROF== Profiling \"multiply\": 0%....100% - 3 passes\n"
                + ncu_table(METRICS.values(), ["ns", "inst", "%", "Mbyte", "sector"],
                            [(MULTIPLY, ["30,000", "1,000", "60", "2", "8"]), (ADD_PARTS, ["10,000", "500", "20", "0.5", "n/a"])])
                + "==PROF== Disconnected from process 1\n")
        seen = counters.kernels(text, METRICS)
        self.assertEqual([name for name, _ in seen], ["stages::multiply", "stages::add_parts"])
        sums = counters.total([values for _, values in seen])
        self.assertEqual((sums["launches"], sums["instructions"], sums["dram_read_bytes"]), (2, 1500, 2.5e6))
        self.assertAlmostEqual(sums["seconds"], 40e-6)
        self.assertAlmostEqual(sums["warps_active"], 50)  # 30 us at 60, 10 us at 20
        self.assertNotIn("load_sectors", sums)  # unknown of one kernel
        self.assertEqual(counters.kernels("==WARNING== No kernels were profiled.\n", METRICS), [])
        with self.assertRaises(counters.Fault):
            counters.kernels(ncu_table(METRICS.values(), ["ns"] * 5, [("f", ["1", "2"])]), METRICS)
        sums = counters.total([{"seconds": 1e-6, "registers": 32, "local_loads": 5}, {"seconds": 3e-6, "registers": 255, "local_loads": 7, "waits_for_data": 2}])
        self.assertEqual((sums["registers"], sums["local_loads"], "waits_for_data" in sums), (255, 12, False))

    def test_a_case_that_is_skipped_has_neither_counts_nor_failed(self):
        """It says why, as for a GPU with too little memory; all else without counts has failed."""
        skipped = {"entry": "07_spmm/balanced", "status": "skipped", "reason": "needs 20 GB of memory"}
        for code, rows, status in ((77, [skipped], "skipped"), (0, [skipped], "skipped"), (1, [skipped], "failed"), (77, [], "failed"), (77, [{**skipped, "entry": "another"}], "failed")):
            with self.subTest(code=code, rows=rows), tempfile.TemporaryDirectory() as directory:
                (pathlib.Path(directory) / "run.json").write_text(json.dumps({"results": rows}))
                (pathlib.Path(directory) / "said.txt").write_text("all skipped\n")
                case = counters.case({}, "07_spmm/balanced", code, pathlib.Path(directory))
                self.assertEqual((case["status"], case["reason"] == skipped["reason"]), (status, status == "skipped"))


class Script(unittest.TestCase):
    """tools/counters.sh from end to end."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.play = pathlib.Path(cls.directory.name)
        for name, text in (("ncu", NCU), ("nvidia-smi", NVIDIA_SMI), ("stages", PROGRAM)):
            (cls.play / name).write_text(text)
            (cls.play / name).chmod(0o755)
        known = [name.split(".")[0] for names in counters.QUANTITIES.values() for name in names]
        known = [name for name in known if not name.endswith(("_cas", "dram__bytes_read", "dram__bytes_write"))]
        (cls.play / "query.txt").write_text("Device NVIDIA H200 (GH100)\n----\nMetric Name    Metric Type\n" + "".join(f"{name}    Counter    # of things\n" for name in known))
        quantities = [name for name in counters.QUANTITIES if name != "shared_cas"]
        cls.asked = [counters.QUANTITIES[name][-1 if "dram" in name else 0] for name in quantities]
        units = {"seconds": "ns", "warps_active": "%", "warps_at_all_times": "%"}
        (cls.play / "table.csv").write_text(ncu_table(cls.asked, [units.get(name, "") for name in quantities],
                                                      [(MULTIPLY, ["1,000"] * len(quantities)), (ADD_PARTS, ["3,000"] * len(quantities))]))
        cls.done = cls.run_script(cls.play / "stages", cls.play / "out", "spmm", "spgemm")
        cls.spmm, cls.spgemm = (json.loads((cls.play / f"out/counters_{name}.json").read_text()) for name in ("spmm", "spgemm"))

    @classmethod
    def run_script(cls, *words, path=None):
        environment = {**os.environ, "PLAY": str(cls.play), "STAGES_COUNTERS_LIMIT": "6", "PATH": path or f"{cls.play}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run([ROOT / "tools/counters.sh", *words], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def cases(self, record, status):
        return {(c["matrix"], c["entry"]): c for c in record["cases"] if c["status"] == status}

    def test_records_say_where_they_come_from_and_what_was_asked(self):
        """Only what this ncu knows."""
        for record, operation in ((self.spmm, "spmm"), (self.spgemm, "spgemm")):
            self.assertEqual([record[name] for name in ("operation", "gpu", "driver", "complete", "command", "not_counted")],
                             [operation, "NVIDIA H200", "580.1", True, f"tools/counters.sh {operation}", ["shared_cas"]])
            self.assertIn("2025.3.1", record["ncu"])
            self.assertRegex(record["source_digest"], "^[0-9a-f]{64}$")
            self.assertRegex(record["date"], r"^\d{4}-\d\d-\d\dT")
            self.assertEqual(list(record["metrics"].values()), self.asked)
        for asked in (self.play / "asked.txt").read_text().splitlines():
            if "--op spmv" not in asked:
                self.assertRegex(asked, rf"--profile-from-start off .*--metrics {','.join(self.asked)} ")

    def test_sums_of_good_cases(self):
        self.assertEqual((len(self.spmm["cases"]), len(self.cases(self.spgemm, "good"))), (41, 6))
        case = self.cases(self.spmm, "good")["gen:twin:am", "07_spmm/balanced"]
        self.assertEqual((case["launches"], case["instructions"], case["options"]), (2, 4000, "N = 32"))
        self.assertAlmostEqual(case["seconds"], 4e-6)
        self.assertAlmostEqual(case["warps_active"], 2500)
        self.assertEqual([(k["name"], k["launches"], k["load_sectors"]) for k in case["kernels"]], [("stages::multiply", 1, 1000), ("stages::add_parts", 1, 3000)])

    def test_failures_are_recorded_and_told(self):
        self.assertEqual(self.done.returncode, 1, self.done.stderr)
        self.assertIn("NOT all cases were counted", self.done.stderr)
        expected = {("gen:twin:arxiv", "07_spmm/split_rows"): "ERR_NVGPUCTRPERM", ("gen:twin:am", "07_spmm/merged_short_rows"): "took too long",
                    ("gen:twin:ppa", "07_spmm/warp_per_row"): "ncu saw no kernel", ("gen:twin:ppa", "07_spmm/balanced"): "out of memory",
                    ("gen:twin:ppa", "07_spmm/split_rows"): "wrong: C(3, 4)"}
        failed = self.cases(self.spmm, "failed")
        self.assertEqual(set(failed), set(expected))
        for key, reason in expected.items():
            self.assertIn(reason, failed[key]["reason"])

    def test_spmv_asks_the_program_for_its_entries(self):
        """Also those that ncu's table has for it alone; as the query does not list them, only those of the launch are asked for beside the others."""
        done = self.run_script(self.play / "stages", self.play / "spmv", "spmv")
        self.assertEqual((done.returncode, [path.name for path in (self.play / "spmv").iterdir()]), (0, ["counters_spmv.json"]), done.stderr)
        record = json.loads((self.play / "spmv/counters_spmv.json").read_text())
        self.assertEqual(len({(c["matrix"], c["entry"], c["options"]) for c in record["cases"]}), len(record["cases"]))
        cases = {(c["matrix"], c["entry"]) for c in record["cases"]}
        wanted = [(f"gen:fixed:n={n},zeros=0.8", entry) for entries, sizes in ((("03_cuda_naive/a", "03_cuda_naive/b", "05_cuda_csr/thread_per_row"), (407, 416, 1023, 1024, 1025)),
                                                                               (("06_cuda_register/row_per_thread",), (512, 544, 560, 565, 576, 1024))) for n in sizes for entry in entries]
        self.assertLessEqual({*wanted, ("gen:twin:arxiv", "vendor/cusparse_csr")}, cases)
        self.assertFalse({"01_cpu_serial/csr_spmv", "03_cuda_naive/dense_output"} & {entry for _, entry in cases})
        self.assertEqual((record["metrics"]["registers"], self.spmm["metrics"].get("registers")), ("launch__registers_per_thread", None))
        self.assertIn("local_loads", record["not_counted"])

    def test_bad_usage_and_no_ncu(self):
        bare = self.play / "bare"
        bare.mkdir()
        for name in ("bash", "dirname", "env"):
            (bare / name).symlink_to(shutil.which(name))
        for words, path, expected in ((["--help"], None, "usage:"), ([self.play / "no"], None, "there is no program"), ([self.play / "stages"], str(bare), "there is no ncu"),
                                      ([self.play / "stages", self.play / "bad", "spmw"], None, "no operation 'spmw'")):
            done = self.run_script(*words, path=path)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr)


class Table(unittest.TestCase):
    """What no page shows; what they show is in the test `tables`."""

    def test_what_is_unknown_and_what_failed(self):
        case = {"matrix": "gen:twin:am", "options": "N = 256", "entry": "07_spmm/balanced", "status": "good"}
        counted = {"seconds": 1e-3, "load_requests": 0, "load_sectors": 0, "shared_atomics": 2e6, "shared_wavefronts": 3e7,
                   "local_loads": 1000, "local_stores": 10, "local_load_sectors": 4000, "local_load_sectors_hit": 1000}
        record = {"gpu": "NVIDIA H200", "ncu": "Version 2025.3.1.0 (build 1)", "date": "2026-11-21T00:00:00Z", "source_digest": "0123456789abcdef",
                  "cases": [case | counted, case | {"status": "failed", "reason": "took | long"}]}
        head, _, good, failed, *_ = tables.counters(record, "N.=.256").splitlines()
        self.assertTrue(head.endswith("| local L1 hits | shared atomics | of them CAS | shared wavefronts |"), head)
        self.assertEqual(good, "| am, N = 256 | `07_spmm/balanced` | 1.00 ms |" + "  |" * 9 + " 1.00 k | 10 | 25 % | 2.00 M |  | 30.0 M |")
        self.assertEqual(failed, "| am, N = 256 | `07_spmm/balanced` | not counted: took / long |" + "  |" * 15)


if __name__ == "__main__":
    unittest.main()
