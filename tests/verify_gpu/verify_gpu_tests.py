#!/usr/bin/env python3
"""What tools/verify-gpu.sh records, what its exit code says, and what tools/check-records.sh tells of it, with a GPU, a build and tests
that are played by scripts; and which sources a record is held to depend on.
"""

import json
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played

OF_GPU, OF_OTHER_GPU, OF_ALL, OF_OTHER = ("aa11" * 16, "bb22" * 16, "cc33" * 16, "dd44" * 16)

# The programs that play their parts: as many GPUs as the file gpus says, sources whose digests are in the files sources (of the
# GPU; sources08 of step 8 alone, if it is there) and all_sources, and what is named in the file broken fails.
PLAYED = {
    "nvidia-smi": """case $1 in
  --query-gpu=name) echo "NVIDIA H200" ;;
  --query-gpu=driver_version) echo 580.1 ;;
  -L) seq -f 'GPU %g: NVIDIA H200' "$(cat "$PLAY/gpus")" ;;
esac""",
    "cmake": """case "$*" in
  *-DGPU=ON*-DSTEPS=*-P*)
    words=$* steps=${words#*-DSTEPS=}
    cat "$PLAY/sources${steps%% *}" >&2 2> /dev/null || cat "$PLAY/sources" >&2 ;;
  *-P*) cat "$PLAY/all_sources" >&2 ;;
  *) ! grep -q cmake "$PLAY/broken" ;;
esac""",
    "ctest": "! grep -q ctest \"$PLAY/broken\"",
    "stages": """echo a table
while [ $# -gt 0 ]; do [ "$1" != --json ] || echo '{}' > "$2"; shift; done
! grep -q small "$PLAY/broken" || exit 77
! grep -q stages "$PLAY/broken\"""",
    "mpi_tests": "exit 0",
}


class Digest(Played):
    """What the digest of the sources, by which a record is found to be of them, takes for another program."""

    def of(self, steps=None):
        words = ["cmake", f"-DROOT={self.directory}", "-DGPU=ON", *([f"-DSTEPS={steps}"] if steps else []), "-P", ROOT / "cmake/BuildInfo.cmake"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stderr

    def test_comments(self):
        code = "// A warp a row.\nint a[] = {1; 2};  // two\n  // [ one more\n\treturn x / y;\n"
        self.write("05_cuda_csr/kernel.cu", code)
        before = self.of()
        for word, other, same in (("A warp a row", "A row for each warp\n// of a block", True), ("  // [ one more\n", "", True),
                                  ("1;", "2;", False), ("x / y", "x * y", False),
                                  ("\treturn", "//return", False)):
            self.write("05_cuda_csr/kernel.cu", code.replace(word, other))
            self.assertEqual(self.of() == before, same, word)

    def test_steps(self):
        asked = ("03", "07", "08", "05;08", None)
        of_path = {"03_cuda_naive/a.cu": {"03", None}, "07_spmm/fast/a.hpp": {"07", None}, "08_spgemm_multigpu/a.cpp": {"08", "05;08", None},
                   "common/multigpu/a.hpp": {"08", "05;08", None}, "common/gpu/a.hpp": set(asked), "common/vendor/a.cpp": set(asked),
                   "common/gpu/nvml.cpp": set(), "02_mpi/a.cpp": set(), "07_spmm/exercises/a.cu": set(), "common/harness/a.cpp": set()}
        for path in of_path:
            self.write(path, "one")
        before = {steps: self.of(steps) for steps in asked}
        for path, count in of_path.items():
            self.write(path, "other")
            self.assertEqual({steps for steps in asked if self.of(steps) != before[steps]}, count, path)
            self.write(path, "one")

    def test_what_counts_for_step_8_alone(self):
        """A record depends on no more sources than its digest is of. What a step may include else is tests/rooms' business."""
        found = [(str(path), name) for step in ROOT.glob("0[3-7]_*") for path in step.rglob("*.*")
                 if path.suffix in (".cpp", ".hpp", ".cu", ".cuh") and "exercises" not in path.parts
                 for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)]
        self.assertEqual(len({name.split("/")[0] for path, name in found if name[0] == "0"}), 5)
        self.assertEqual([(path, name) for path, name in found if name.startswith("common/multigpu/")], [])


class Records(Played):
    def setUp(self):
        super().setUp()
        (self.directory / "tools").mkdir()
        for name in ("verify-gpu.sh", "gpu-sources.sh", "matrices.sh", "check-records.sh", "record.py", "ranks.sh", "processes.sh"):
            shutil.copy(ROOT / "tools" / name, self.directory / "tools")
        for name, text in PLAYED.items():
            self.script(f"{'build/gpu/bin' if name in ('stages', 'mpi_tests') else 'bin'}/{name}", text)
        self.write("data/rungs.tsv", "# none\n" + "".join(f"{step}_x\t-m gen:a gen:b --filter {step}_|vendor\n" for step in ("01", "05", "07", "08")))
        self.play(gpus="1", sources=OF_GPU, all_sources=OF_ALL, broken="nothing")

    def verify(self, *words, expect=0, **environment):
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        return self.call("tools/verify-gpu.sh", *words, code=expect, **{"STAGES_PROCESSES": "1", **environment}).stderr

    def record(self, name="verify.json"):
        return json.loads((self.directory / "results/nvidia-h200" / name).read_text())

    def steps(self, name="verify.json"):
        return {step["name"]: step["passed"] for step in self.record(name)["steps"]}

    def names(self, passed):
        return [name for name, value in self.steps().items() if value is passed]

    def test_a_run_says_what_it_verified_and_keeps_the_rest(self):
        """Other steps with their dates and sources; a step that is done again is there once. The build is for the GPU at hand."""
        self.listen("bin/cmake", "case")
        self.assertIn("all green", self.verify("--only", "tests,spgemm"))
        self.assertTrue(any("-DCMAKE_CUDA_ARCHITECTURES=native" in line for line in self.asked()))
        record = self.record()
        self.assertEqual([record[key] for key in ("gpu", "driver", "source_digest", "gpu_source_digest", "wanted", "complete")],
                         ["nvidia-h200", "580.1", OF_ALL, OF_GPU, "tests spgemm", True])
        self.assertEqual(self.steps(), {"configure": True, "build": True, "tests": True, "spgemm": True})
        self.write("results/nvidia-h200/verify.json",
                   json.dumps({**record, "steps": [{**step, "date": "2001-01-01T00:00:00Z"} for step in record["steps"]]}) + "\n")
        self.play(all_sources=OF_OTHER)
        self.verify("--only", "spgemm")
        self.assertEqual([(step["name"], step["source_digest"], step["driver"], step["date"] < "2002") for step in self.record()["steps"]],
                         [("tests", OF_ALL, "580.1", True), *((name, OF_OTHER, "580.1", False) for name in ("configure", "build", "spgemm"))])
        self.assertEqual(self.record()["wanted"], "spgemm")

    def test_a_failure_stays_until_it_is_done_again(self):
        self.play(broken="ctest")
        self.assertIn("NOT green: tests", self.verify("--only", "tests", expect=1))
        self.assertIn("not green, and nobody has done these steps again: tests\n", self.verify("--only", "spgemm"))
        self.assertEqual(self.names(False), ["tests"])
        self.play(broken="nothing")
        self.assertNotIn("again", self.verify("--only", "tests"))
        self.assertEqual(self.names(False), [])

    def test_a_step_is_dropped_only_for_sources_that_it_depends_on(self):
        self.verify("--only", "tests,spmv,ladders")
        self.play(**{"sources08": OF_OTHER_GPU, "sources03;04;05;06;07;08": OF_OTHER})
        self.verify("--only", "spgemm")
        self.assertEqual({step["name"]: step["gpu_source_digest"] for step in self.record()["steps"]},
                         {"spmv": OF_GPU, "ladder_05": OF_GPU, "ladder_07": OF_GPU, "configure": OF_OTHER, "build": OF_OTHER, "spgemm": OF_OTHER_GPU})
        self.assertEqual(self.record()["gpu_source_digest"], OF_OTHER)

    def check_records(self):
        return self.call("tools/check-records.sh").stdout

    def test_what_is_older_is_told(self):
        self.assertIn("no record of a GPU", self.check_records())
        self.play(broken="ctest")
        self.verify("--only", "tests,spmv,ladders", expect=1)
        same, older = "  of these GPU sources: configure build spmv ladder_05 ladder_07", "  OLDER, to be made anew by tools/verify-gpu.sh: "
        for changed, told in (({}, f"{same} ladder_08\n  FAILED: tests\n"),
                              ({"sources08": OF_OTHER_GPU}, f"{same}\n{older}ladder_08\n  FAILED: tests\n"),
                              ({"sources": OF_OTHER}, f"{older}configure build tests spmv ladder_05 ladder_07 ladder_08\n")):
            self.play(**changed)
            self.assertEqual(self.check_records(), f"results/nvidia-h200/verify.json\n{told}")

    def test_entries_that_a_step_runs_are_of_its_sources(self):
        self.listen()
        shutil.copy(ROOT / "tools/d2-study.sh", self.directory / "tools")
        self.reported("gen:some:n=3")
        self.play(gpus="2")
        self.verify("--only", "d2,spmv,spmv_held_out,spgemm,several,multi,shares,shares_d4,held_out,spmm_held_out,spmm_held_out_between,spmm,spmm_sweep,"
                    "ladders", "one.mtx")
        written = [re.search(r"--json \S*/(\S+)[.]json", line) for line in self.asked()]
        names = [found[1] if found else "two_processes_host" for found in written]
        self.assertGreaterEqual(len(set(names)), 21, names)
        told = f'. {ROOT}/tools/gpu-sources.sh; for name; do echo "${{gpu_steps[$(kind_of "$name")]}}"; done'
        covered = subprocess.run(["bash", "-c", told, "bash", *names], capture_output=True, text=True, check=True).stdout.split()
        for line, name, steps in zip(self.asked(), names, covered, strict=True):
            filters = re.findall(r"0(?:\[(\S+?)\]|(\d))_", line.partition("--filter ")[2])
            runs = {f"0{step}" for some, one in filters for step in some.replace("3-6", "3456") or one}
            self.assertTrue(runs and runs <= set(steps.split(";")), f"{name}, of {steps}: {line}")

    def test_several_gpus_have_a_record_of_their_own(self):
        self.verify("--only", "tests,multi")
        self.assertNotIn("spgemm_multi_host", self.steps())
        self.play(gpus="2")
        self.verify("--only", "several,multi")
        self.assertEqual(set(self.steps("verify-2-gpus.json")), {"configure", "build", "tests_of_several_gpus"} | {
            f"{name}_{destination}" for name in ("two_processes", "spgemm_multi") for destination in ("host", "distributed", "one-gpu")})
        self.assertIn("tests", self.steps())

    def test_how_a_step_ends(self):
        """What the program says of it, and what is then recorded: passed, failed, or skipped and so neither."""
        for broken, step, passed, said in (("small memory", "spgemm", None, "skipped, as nothing of it can run on this GPU: spgemm\n"), ("stages", "spgemm", False, "NOT green: spgemm")):
            with self.subTest(broken=broken):
                self.play(broken=broken)
                self.assertIn(said, self.verify("--only", step, expect=1 if passed is False else 0))
                self.assertEqual(self.steps()[step], passed)

    def test_a_grader_that_skips_its_tests_is_not_green(self):
        for text, passed in (("print('test_attacks ... ok')", True), ("print('test_attacks ... skipped')", False), ("raise SystemExit(1)", False)):
            self.write("tests/grade/attacks_tests.py", text + "\n")
            self.verify("--only", "grade", expect=0 if passed else 1)
            self.assertEqual((self.steps()["grade_build"], self.steps()["grade"]), (True, passed), text)

    def test_some_of_the_sanitizer_s_tools(self):
        self.script("bin/compute-sanitizer", "echo '[       OK ]'; ! grep -q \"$2\" \"$PLAY/broken\"")
        for name in ("battery_tests", "cuda_mutants_tests"):
            self.script(f"build/gpu/bin/{name}", "echo '  one'")
        self.verify("--only", "sanitizer:initcheck,sanitizer:synccheck")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "initcheck": True, "synccheck": True})
        self.assertIn("no sanitizer:init; give some of memcheck", self.verify("--only", "sanitizer:init", expect=2))
        self.play(broken="racecheck")
        self.verify("--only", "sanitizer", expect=1)
        self.assertEqual(self.names(False), ["racecheck_without_chain_cluster", "racecheck_small_tables"])
        self.assertIn("memcheck", self.names(True))

    def asked(self):
        return (self.directory / "asked").read_text().splitlines()

    def listen(self, program="build/gpu/bin/stages", before="while"):
        """From now on the program writes down what it is asked."""
        path = self.directory / program
        path.write_text(path.read_text().replace(before, f'echo "$*" >> "$PLAY/asked"\n{before}', 1))

    def reported(self, *matrices):
        self.write("data/matrices.tsv", "# none\nkind\tfitted\tall\tgen:other\n" + "".join(f"kind\treported\tall\t{m}\n" for m in matrices))

    def test_steps_that_are_done_only_where_they_are_named(self):
        """The original's own cases, shared out; and matrices held out: the generated ones of the list, and those of its files that are there."""
        self.listen()
        self.verify("--only", "shares,shares_d4")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "spgemm_shares": True, "spgemm_shares_d4": True})
        asked = [re.search(r"--destination distributed .*--json \S*/(\S+) --ranks (\d+)", line).groups() for line in self.asked()]
        self.assertEqual(asked, [("spgemm-shares.json", n) for n in "248"] + [("spgemm-shares-d4.json", n) for n in "12468"])
        self.verify("--only", "spgemm")
        self.assertEqual(len(self.asked()), 9)
        self.reported("gen:some:n=3", "mine.mtx.gz", "nobody.mtx")
        self.write("mine.mtx.gz", "")
        for name, record in (("held_out", "spgemm_held_out"), ("spmv_held_out",) * 2, ("spmm_held_out",) * 2, ("spmm_held_out_between",) * 2):
            self.assertIn("nobody.mtx is not in STAGES_FILES", self.verify("--only", name, STAGES_FILES=str(self.directory)))
            self.assertEqual(self.steps()[record], True)
            self.assertRegex(self.asked()[-1], rf"^run -m gen:some:n=3 -m {self.directory}/mine.mtx.gz --op {record.partition('_')[0]} .*/{record}.json --append$")

    def test_spmv_and_double_precision_are_records_of_their_own(self):
        self.listen()
        self.verify("--only", "spmv", "mine.mtx")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "spmv": True})
        self.assertEqual(re.findall(r"-m (\S+)", self.asked()[0])[-1], "mine.mtx")
        self.verify("--only", "spmv", STAGES_PROCESSES="")
        self.assertEqual([line.endswith(" --append") for line in self.asked()[1:]], [True] * 3, "a record is of three processes")
        self.reported("gen:some:n=3")
        self.verify("--only", "spmv,spmv_held_out,spgemm,held_out,spmm_held_out", "one.mtx", STAGES_TYPE="f64")
        names = [f"{name}_f64" for name in ("spmv", "spgemm", "spmv_held_out", "spgemm_held_out", "spmm_held_out")]
        self.assertEqual(list(self.steps())[-len(names):], names)
        for name, words in zip(names, self.asked()[4:], strict=True):
            self.assertRegex(words, f" --type f64 .*/{name}.json --append$")

    def test_what_ends_it(self):
        """A failed build; sources without a digest; words and variables that it does not know. Only the first of these leaves a record."""
        for words, variables, said in ((["--only"], {}, "--only needs steps"), (["--only", "test"], {}, "no step 'test'"), (["--help"], {}, "usage:"),
                                       (["--only", "spmv"], {"STAGES_TYPE": "double"}, "STAGES_TYPE is 'double'; give f32 or f64"),
                                       (["--only", "tests:cli"], {}, "no step 'tests:cli'")):
            with self.subTest(words=words):
                self.assertIn(said, self.verify(*words, expect=2, **variables))
        for sources in ({"all_sources": "CMake Error\n\nno such file"}, {"all_sources": OF_ALL, "sources": "CMake Error\n\nno such file"}):
            self.play(**sources)
            self.assertIn("CMake Error", self.verify("--only", "tests", expect=2))
        self.assertFalse(list(self.directory.glob("results/*/*")))
        self.play(sources=OF_GPU, broken="cmake")
        self.assertIn("the build failed", self.verify("--only", "tests", expect=1))
        self.assertEqual((self.steps(), self.record()["complete"]), ({"configure": False, "build": False}, False))


if __name__ == "__main__":
    unittest.main()
