#!/usr/bin/env python3
"""What the lens counts beside what ncu counts: the cases, ncu's tables read, and tools/lens-agreement.sh from end to end, with an
ncu, a GPU and a program that are played by scripts.

usage: agreement_tests.py [unittest options]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import agreement  # tools/agreement.py

HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
FORMS = "void stages::(anonymous namespace)::multiply<float, int, stages::Form<{}, (bool)1>>(stages::Matrix<T1>, auto (T2)->T3, unsigned int)"
KNOWN = [metric for metrics in agreement.QUANTITIES.values() for metric in metrics]
OPCODES = "1,234 (LDG: 1,000; LD: 3; IADD3: 200; STS: 20; REDG: 7; ATOMG: 4)"


def line(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def table(metrics, rows):
    """A table as ncu --csv --page raw prints it, made by hand; rows: (kernel, block, grid, value of all metrics)."""
    lines = ["==PROF== Connected to process 4242", line(HEAD + metrics), line([""] * len(HEAD) + ["ns" if "duration" in metric else "" for metric in metrics])]
    for k, (name, block, grid, value) in enumerate(rows):
        lines.append(line([k, 4242, "stages", "127.0.0.1", name, 1, 7, block, grid, 0, "9.0"] + [OPCODES if metric == agreement.OPCODES else value for metric in metrics]))
    return "\n".join(lines) + "\n"


ROWS = [(FORMS.format(8), "(128, 1, 1)", "(10, 1, 1)", "1,000"), (FORMS.format(4), "(32, 2, 1)", "(5, 2, 1)", "500"), ("other(int)", "(64, 1, 1)", "(1, 1, 1)", "7")]

NCU = """#!/usr/bin/env bash
if [ "$1" = --version ]; then echo 'Version 2025.3.1.0 (build 1)'; exit 0; fi
if [ "$1" = --query-metrics ]; then grep -v sass__ "$PLAY/query.txt"; exit 0; fi
if [ "$1 $2 $3" = "--query-metrics-collection source --query-metrics" ]; then grep sass__ "$PLAY/query.txt"; exit 0; fi
[ "$STAGES_PROFILE" = 1 ] || exit 1
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 2
echo "$*" >> "$PLAY/asked.txt"
if [ "$(wc -l < "$PLAY/asked.txt")" = "${PLAY_KILLED_AT:-0}" ]; then
  read -r _ _ _ script _ < "/proc/$PPID/stat"  # the parent is `timeout`
  kill -9 "$script"
fi
"$@" || exit
cat "$PLAY/table.csv" > "$log"
"""
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
words = dict(zip(sys.argv[1:], sys.argv[2:]))
def entry(name, op, gpu=True, ranks=False, peer=False):
    return {"name": name, "operation": op, "needs": {"gpu": gpu, "several_ranks": ranks}, "peer": peer}
if sys.argv[1] == "list":
    print(json.dumps({"entries": [entry("01_cpu_serial/csr_spmv", "spmv", gpu=False), entry("05_cuda_csr/warp_per_row", "spmv"),
                                  entry("08_spgemm_multigpu/binned", "spgemm"), entry("08_spgemm_multigpu/multi_blocks", "spgemm", ranks=True)]}))
elif sys.argv[1] == "lens":
    if "uniform" in words["-m"] or "PLAY_NO_LENS" in os.environ:
        sys.exit("stages: error: too large")
    kernel = {"name": "multiply<float, int, Form<8, true> >", "launches": 2, "blocks": int(os.environ["STAGES_DEVICE_SMS"]), "threads": int(os.environ["STAGES_DEVICE_L2"]),
              "counters": {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 1500, "global_ld_lanes": 40, "shared_st_lanes": 2}}
    json.dump({"entries": [{"entry": sys.argv[2], "kernels": [kernel]}]}, open(words["--json"], "w"))
else:
    name = words["--filter"].strip("^$")
    if "rmat" in words["-m"]:
        sys.exit("stages: error: out of memory")
    row = {"entry": name, "status": "skipped" if "stencil" in words["-m"] else "good", "reason": "too much memory"}
    json.dump({"results": [row]}, open(words["--json"], "w"))
"""
NVIDIA_SMI = """#!/usr/bin/env bash
case $1 in --query-gpu=name) echo "NVIDIA H200" ;; --query-gpu=driver_version) echo 580.1 ;; esac
"""


class Reading(unittest.TestCase):
    def test_names_of_functions(self):
        for name, expected in ((ROWS[0][0], "multiply"), ("other(int)", "other"), ("void unnamed>::multiply<1, float>(unnamed>::Rows<T2>, T2 *)", "multiply"), ("multiply<float, Form<8, true> >", "multiply"), ("f", "f")):
            self.assertEqual(agreement.function(name), expected)

    def test_launches_of_one_function_are_added_up(self):
        metrics = {name: list(several) if name in agreement.ADDED else [several[0]] for name, several in agreement.QUANTITIES.items()}
        names = [metric for several in metrics.values() for metric in several]
        first, other = agreement.launches(table(names, ROWS), metrics)
        self.assertEqual([first[key] for key in ("name", "launches", "blocks", "threads", "load_sectors")], ["multiply", 2, 20, 10 * 128 + 10 * 64, 1500])
        self.assertEqual(first["atomic_sectors"], 3000)  # atomics and reductions
        self.assertAlmostEqual(first["seconds"], 1.5e-6)
        self.assertEqual(len(first["signatures"]), 2)
        self.assertEqual((other["name"], other["l2_sectors"]), ("other", 7))
        # Threads by opcode; two launches of the one, and one of the other.
        for kernel, times in ((first, 2), (other, 1)):
            self.assertEqual([kernel[name] for name in agreement.LANES], [1003 * times, 0, 11 * times, 0, 20 * times, 0])
        unknown, = agreement.launches(table(names, ROWS[2:]).replace(OPCODES, "n/a"), metrics)
        self.assertEqual([unknown[name] for name in agreement.LANES], [None] * 6)

    def test_no_table(self):
        self.assertEqual(agreement.launches("==WARNING== No kernels were profiled.\n", {}), [])


class Script(unittest.TestCase):
    """tools/lens-agreement.sh from end to end."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.play = pathlib.Path(cls.directory.name)
        for name, text in (("ncu", NCU), ("nvidia-smi", NVIDIA_SMI), ("stages", PROGRAM)):
            (cls.play / name).write_text(text)
            (cls.play / name).chmod(0o755)
        (cls.play / "query.txt").write_text("".join(f"{metric.split('.')[0]}    Counter    # of things\n" for metric in KNOWN))
        asked = list(dict.fromkeys(metric for name, several in agreement.QUANTITIES.items() for metric in (several if name in agreement.ADDED else several[:1])))
        (cls.play / "table.csv").write_text(table(asked, ROWS))
        cls.ncu = cls.run_script("--ncu", cls.play / "stages", cls.play / "out")
        for name, gpu, sms in (("a", "another", 7), ("b", "NVIDIA H200", 20)):
            (cls.play / f"out/{name}.json").write_text(json.dumps({"context": {"gpu": gpu, "gpu_sms": str(sms), "gpu_l2_bytes": str(3 * sms << 20)}}))
        cls.lens = cls.run_script("--lens", cls.play / "stages", cls.play / "out")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def run_script(cls, *words, limit="60", killed_at=0):
        (cls.play / "asked.txt").write_text("")
        environment = {**os.environ, "PLAY": str(cls.play), "PLAY_KILLED_AT": str(killed_at), "STAGES_AGREEMENT_LIMIT": limit, "TMPDIR": str(cls.play), "PATH": f"{cls.play}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run([ROOT / "tools/lens-agreement.sh", *words], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def test_ncu_half(self):
        record = json.loads((self.play / "out/lens_agreement_ncu.json").read_text())
        self.assertEqual((record["gpu"], record["complete"], record["not_counted"]), ("NVIDIA H200", True, []))
        self.assertRegex(record["source_digest"], "^[0-9a-f]{64}$")
        self.assertEqual([case["entry"] for case in record["cases"]], ["05_cuda_csr/warp_per_row", "08_spgemm_multigpu/binned"] * 3)
        status = {case["matrix"]: case["status"] for case in record["cases"] if "08" in case["entry"]}
        self.assertEqual(list(status.values()), ["skipped", "good", "failed"])
        self.assertEqual(self.ncu.returncode, 1)
        self.assertIn("NOT all cases were counted", self.ncu.stderr)

    def test_lens_half(self):
        record = json.loads((self.play / "out/lens_agreement.json").read_text())
        case = record["cases"][0]
        self.assertEqual((case["status"], [k["name"] for k in case["ncu"]], [k["name"] for k in case["lens"]]), ("good", ["multiply", "other"], ["multiply"]))
        self.assertEqual([case["lens"][0][name] for name in ("load_sectors", "load_lanes", "shared_store_lanes", "launches")], [1500, 40, 2, 2])
        self.assertEqual((case["ncu"][0]["load_lanes"], case["ncu"][0]["shared_store_lanes"]), (2006, 40))
        self.assertEqual((case["lens"][0]["blocks"], case["lens"][0]["threads"]), (20, 60))  # SMs and MiB of L2 of that GPU, as a record beside says
        self.assertEqual(record["device"], {"STAGES_DEVICE_SMS": "20", "STAGES_DEVICE_L2": "60"})
        self.assertIn("the lens: stages: error: too large", [c.get("reason") for c in record["cases"]])
        self.assertEqual(record["counted_on_gpu"]["command"], "tools/lens-agreement.sh --ncu")

    def test_a_record_is_left_alone_where_nothing_can_be_counted(self):
        record = self.play / "out/lens_agreement.json"
        before = record.read_bytes()
        with unittest.mock.patch.dict(os.environ, PLAY_NO_LENS="1"):
            done = self.run_script("--lens", self.play / "stages", self.play / "out")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"nothing was counted, and {record} is as it was: stages: error: too large", done.stderr)
        self.assertEqual(record.read_bytes(), before)

    def count(self, name, **how):
        """A call that counts into the directory `name`: its exit code, what it asked ncu for, what it said, the record."""
        done = self.run_script("--ncu", self.play / "stages", self.play / name, **how)
        asked = [words.split()[words.split().index("-m") + 1] + words.split("--filter ^")[1].split("$")[0] for words in (self.play / "asked.txt").read_text().splitlines()]
        return done.returncode, asked, done.stderr, json.loads((self.play / name / "lens_agreement_ncu.json").read_text())

    def test_what_is_not_reached_in_time_is_recorded(self):
        code, asked, said, record = self.count("late", limit="0")
        self.assertEqual((code, asked, record["complete"], len(record["cases"])), (1, [], False, 6))
        self.assertEqual({case["status"] for case in record["cases"]}, {"failed"})
        self.assertIn("not reached", record["cases"][0]["reason"])
        self.assertIn("6 of 6 cases are not reached yet; run the same command again", said)
        self.assertEqual(self.run_script("--lens", self.play / "stages", self.play / "late").returncode, 1)

    def test_a_second_call_goes_on(self):
        # Killed in the fourth case: three are counted, and the second call counts the others, in the places that they have in a whole record.
        code, asked, _, record = self.count("parts", killed_at=4)
        self.assertEqual((code, len(asked), record["complete"]), (-9, 4, False))
        _, others, _, whole = self.count("parts")
        self.assertEqual(others, self.count("once")[1][3:])
        self.assertEqual(whole["cases"], json.loads((self.play / "once/lens_agreement_ncu.json").read_text())["cases"])
        self.assertEqual((whole["complete"], [part["counted"] for part in whole["parts"]]), (True, [3, 3]))
        # What failed is tried again, and nothing else.
        code, asked, _, record = self.count("parts")
        failed = [case["matrix"] + case["entry"] for case in whole["cases"] if case["status"] == "failed"]
        self.assertEqual((code, asked, record["cases"]), (1, failed, whole["cases"]))

    def test_what_other_sources_left_does_not_count(self):
        _, asked, _, _ = self.count("other")
        file = self.play / "other/lens_agreement_ncu.json"
        # Of one step alone: the others' cases are kept.
        whole = json.loads(file.read_text())
        self.assertEqual(list(whole["gpu_source_digests"]), ["03", "04", "05", "06", "07", "08"])
        file.write_text(json.dumps({**whole, "gpu_source_digests": {**whole["gpu_source_digests"], "05": "f" * 64}}))
        _, again, said, record = self.count("other")
        failed = [case["matrix"] + case["entry"] for case in whole["cases"] if case["status"] == "failed"]
        self.assertEqual(again, [words for words in asked if "05_cuda_csr" in words or words in failed])
        self.assertIn("step 05", said)
        self.assertEqual(({agreement.identity(case) for case in record["cases"]}, record["gpu_source_digests"]), ({agreement.identity(case) for case in whole["cases"]}, whole["gpu_source_digests"]))
        for key, value in (("gpu", "NVIDIA H100"), ("ncu", "Version 1")):
            file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
            _, again, said, record = self.count("other")
            self.assertEqual((again, len(record["parts"])), (asked, 1))
            self.assertIn(f"has another {key}", said)
        # Nor what was counted with other metrics, nor a case that there is no more.
        record["metrics"].pop("opcodes")
        file.write_text(json.dumps(record))
        self.assertEqual(self.count("other")[1], asked)
        record = json.loads(file.read_text())
        record["cases"][0]["entry"] = "05_cuda_csr/no_more"
        file.write_text(json.dumps(record))
        _, again, _, record = self.count("other")
        self.assertEqual((again[0], len(again), len(record["cases"])), (asked[0], 2, 6))  # and the one that failed

    def test_bad_usage(self):
        for words, expected in ((["--help"], "usage:"), (["--ncu", self.play / "no"], "there is no program"), (["--lens", self.play / "stages", self.play / "no"], "there is no")):
            done = self.run_script(*words)
            self.assertEqual((done.returncode, expected in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
