#!/usr/bin/env python3
"""What tools/verify-gpu.sh records, what its exit code says, and what tools/check-records.sh tells of it, with a GPU, a build and tests
that are played by scripts; and which sources a record is held to depend on.

usage: verify_gpu_tests.py [unittest options]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    "stages": """while [ $# -gt 0 ]; do [ "$1" != --json ] || echo '{}' > "$2"; shift; done
! grep -q small "$PLAY/broken" || exit 77
! grep -q nvml "$PLAY/broken" || { echo "stages: error: --energy 2: what the GPU draws is not known: no NVML" >&2; exit 2; }
! grep -q option "$PLAY/broken" || { echo "stages: error: --energi: no such option" >&2; exit 2; }
! grep -q stages "$PLAY/broken\"""",
    "mpi_tests": "exit 0",
}


class Digest(unittest.TestCase):
    """What the digest of the sources, by which a record is found to be of them, takes for another program."""

    def of(self, directory, steps=None, joules="OFF"):
        words = ["cmake", f"-DROOT={directory}", "-DGPU=ON", f"-DJOULES={joules}", *([f"-DSTEPS={steps}"] if steps else []), "-P",
                 ROOT / "cmake/BuildInfo.cmake"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stderr

    def write(self, directory, path, code):
        source = pathlib.Path(directory, path)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(code)

    def digest(self, code):
        with tempfile.TemporaryDirectory() as directory:
            self.write(directory, "05_cuda_csr/kernel.cu", code)
            return self.of(directory)

    def test_comments(self):
        code = "// A warp a row.\nint a[] = {1; 2};  // two\n  // [ one more\n\treturn x / y;\n"
        self.assertEqual(self.digest(code), self.digest(code.replace("A warp a row", "A row for each warp\n// of a block")))
        self.assertEqual(self.digest(code), self.digest(code.replace("  // [ one more\n", "")))
        for word, other in (("1;", "2;"), ("x / y", "x * y"), ("\treturn", "//return")):
            self.assertNotEqual(self.digest(code), self.digest(code.replace(word, other)), word)

    def test_steps(self):
        asked = ("03", "07", "08", "05;08", None)
        of_path = {"03_cuda_naive/a.cu": {"03", None}, "07_spmm/fast/a.hpp": {"07", None}, "08_spgemm_multigpu/a.cpp": {"08", "05;08", None},
                   "common/multigpu/a.hpp": {"08", "05;08", None}, "common/gpu/a.hpp": set(asked), "common/vendor/a.cpp": set(asked),
                   "common/gpu/nvml.cpp": set(), "02_mpi/a.cpp": set(), "07_spmm/exercises/a.cu": set(), "common/harness/a.cpp": set()}
        with tempfile.TemporaryDirectory() as directory:
            for path in of_path:
                self.write(directory, path, "one")
            before = {steps: self.of(directory, steps) for steps in asked}
            joules = self.of(directory, "05;08", "ON")
            for path, count in of_path.items():
                self.write(directory, path, "other")
                self.assertEqual({steps for steps in asked if self.of(directory, steps) != before[steps]}, count, path)
                self.write(directory, path, "one")
            self.assertEqual(self.of(directory, "05;08", "ON"), joules)
            self.write(directory, "common/gpu/nvml.cpp", "other")
            self.assertNotEqual(self.of(directory, "05;08", "ON"), joules)


class Sources(unittest.TestCase):
    """That a record depends on no more sources than its digest is of."""

    def included(self, *places):
        for place in places:
            for path in sorted(place.rglob("*")):
                if path.suffix in (".cpp", ".hpp", ".cu", ".cuh") and "exercises" not in path.parts:
                    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
                        yield path.relative_to(ROOT), name

    def test_a_step_includes_no_other_one(self):
        steps = sorted(ROOT.glob("0[3-8]_*"))
        self.assertEqual(len(steps), 6)
        for step in steps:
            own = (f"{step.name}/", "common/") if step.name.startswith("08_") else (f"{step.name}/", "common/(?!multigpu/)")
            found = list(self.included(step))
            self.assertGreater(len(found), 10, step)
            for path, name in found:
                self.assertRegex(name, "|".join(f"^{start}" for start in own), f"{path} depends on what cmake/BuildInfo.cmake does not count for it")

    def test_what_all_share_includes_none(self):
        for path, name in self.included(ROOT / "common"):
            self.assertNotRegex(name, "^0[3-8]_", path)
        for path, name in self.included(ROOT / "common/gpu", ROOT / "common/vendor"):
            self.assertFalse(name.startswith("common/multigpu/"), f"{path} includes {name}, which counts for step 8 alone")


class Records(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for place in ("tools", "build/gpu/bin"):
            (self.root / place).mkdir(parents=True)
        for name in ("verify-gpu.sh", "gpu-sources.sh", "check-records.sh", "ranks.sh"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        for name, text in PLAYED.items():
            path = self.root / ("build/gpu/bin" if name in ("stages", "mpi_tests") else ".") / name
            path.write_text(f"#!/usr/bin/env bash\n{text}\n")
            path.chmod(0o755)
        self.play(gpus="1", sources=OF_GPU, all_sources=OF_ALL, broken="nothing")

    def play(self, **files):
        for name, text in files.items():
            (self.root / name).write_text(text + "\n")

    def verify(self, *words, expect=0):
        environment = {**os.environ, "PLAY": str(self.root), "PATH": f"{self.root}{os.pathsep}{os.environ['PATH']}"}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        done = subprocess.run([self.root / "tools/verify-gpu.sh", *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def record(self, name="verify.json"):
        return json.loads((self.root / "results/nvidia-h200" / name).read_text())

    def steps(self, name="verify.json"):
        return {step["name"]: step["passed"] for step in self.record(name)["steps"]}

    def test_a_run_says_what_it_verified(self):
        self.assertIn("all green", self.verify("--only", "tests,spgemm"))
        record = self.record()
        self.assertEqual((record["gpu"], record["driver"], record["source_digest"], record["gpu_source_digest"], record["wanted"], record["complete"]),
                         ("nvidia-h200", "580.1", OF_ALL, OF_GPU, "tests spgemm", True))
        self.assertEqual(self.steps(), {"configure": True, "build": True, "tests": True, "spgemm": True})

    def test_other_steps_are_kept_with_their_dates_and_sources(self):
        self.verify("--only", "tests")
        first = {step["name"]: step for step in self.record()["steps"]}
        first["tests"]["date"] = "2001-01-01T00:00:00Z"
        path = self.root / "results/nvidia-h200/verify.json"
        path.write_text(json.dumps({**self.record(), "steps": list(first.values())}) + "\n")
        self.play(all_sources=OF_OTHER)
        self.verify("--only", "spgemm")
        record = self.record()
        self.assertEqual([(step["name"], step["source_digest"]) for step in record["steps"]],
                         [("tests", OF_ALL), ("configure", OF_OTHER), ("build", OF_OTHER), ("spgemm", OF_OTHER)])
        self.assertEqual((record["steps"][0]["date"], record["steps"][0]["driver"]), ("2001-01-01T00:00:00Z", "580.1"))
        self.assertEqual(record["wanted"], "spgemm")
        self.verify("--only", "tests")
        self.assertEqual([step["name"] for step in self.record()["steps"]], ["spgemm", "configure", "build", "tests"])
        self.assertNotIn("2001", path.read_text())

    def test_a_failure_stays_until_it_is_done_again(self):
        self.play(broken="ctest")
        self.assertIn("NOT green: tests", self.verify("--only", "tests", expect=1))
        self.assertIn("not green, and nobody has done these steps again: tests\n", self.verify("--only", "spgemm"))
        self.assertEqual(self.steps(), {"tests": False, "configure": True, "build": True, "spgemm": True})
        self.play(broken="nothing")
        self.assertNotIn("again", self.verify("--only", "tests"))
        self.assertTrue(all(self.steps().values()))

    def test_what_other_sources_did_is_dropped(self):
        self.verify("--only", "tests")
        self.play(sources=OF_OTHER_GPU)
        self.verify("--only", "spgemm")
        self.assertEqual(self.record()["gpu_source_digest"], OF_OTHER_GPU)
        self.assertNotIn("tests", self.steps())

    def test_a_step_is_dropped_only_for_sources_that_it_depends_on(self):
        self.verify("--only", "tests,spmv,ladders")
        self.play(**{"sources08": OF_OTHER_GPU, "sources03;04;05;06;07;08": OF_OTHER})
        self.verify("--only", "spgemm")
        self.assertEqual({step["name"]: step["gpu_source_digest"] for step in self.record()["steps"]},
                         {"spmv": OF_GPU, "ladder_spmm": OF_GPU, "configure": OF_OTHER, "build": OF_OTHER, "spgemm": OF_OTHER_GPU})

    def check_records(self):
        environment = {**os.environ, "PLAY": str(self.root), "PATH": f"{self.root}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run([self.root / "tools/check-records.sh"], env=environment, capture_output=True, text=True, timeout=60, check=True).stdout

    def test_what_is_older_is_told(self):
        self.assertIn("no record of a GPU", self.check_records())
        self.play(broken="ctest")
        self.verify("--only", "tests,spmv,ladders", expect=1)
        record = "results/nvidia-h200/verify.json\n"
        older = "  OLDER, to be made anew by tools/verify-gpu.sh: "
        self.assertEqual(self.check_records(), f"{record}  of these GPU sources: configure build spmv ladder_spmm ladder_spgemm\n  FAILED: tests\n")
        self.play(sources08=OF_OTHER_GPU)
        self.assertEqual(self.check_records(), f"{record}  of these GPU sources: configure build spmv ladder_spmm\n{older}ladder_spgemm\n  FAILED: tests\n")
        self.play(sources=OF_OTHER)
        self.assertEqual(self.check_records(), f"{record}{older}configure build tests spmv ladder_spmm ladder_spgemm\n")

    def test_a_record_whose_steps_have_no_digests_counts_by_that_of_all(self):
        self.verify("--only", "tests,spgemm")
        path = self.root / "results/nvidia-h200/verify.json"
        old = {**self.record(), "steps": [{key: value for key, value in step.items() if key != "gpu_source_digest"} for step in self.record()["steps"]]}
        path.write_text(json.dumps(old) + "\n")
        self.play(sources08=OF_OTHER)
        self.assertEqual(self.check_records(), "results/nvidia-h200/verify.json\n  of these GPU sources: configure build tests spgemm\n")
        self.verify("--only", "spmv")
        self.assertEqual(set(self.steps()), {"configure", "build", "tests", "spgemm", "spmv"})
        path.write_text(json.dumps(old) + "\n")
        self.play(**{"sources03;04;05;06;07;08": OF_OTHER_GPU})
        self.assertIn("OLDER, to be made anew by tools/verify-gpu.sh: configure build tests spgemm\n", self.check_records())
        self.verify("--only", "spmv")
        self.assertEqual(set(self.steps()), {"configure", "build", "spmv"})

    def test_entries_that_a_step_runs_are_of_its_sources(self):
        self.listen()
        for name in ("d2-study.sh", "spmm-study.sh"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        (self.root / "tools/sets").mkdir()
        (self.root / "tools/sets/spgemm-reported.txt").write_text("gen:some:n=3\n")
        self.play(gpus="2")
        with unittest.mock.patch.dict(os.environ, {"STAGES_HELD_OUT": "one.mtx", "STAGES_SPMM_PARTS": "order hubs"}):
            # Whether gather, for which nobody plays a program, fails is not asked.
            self.verify("--only", "d2,spmv,spgemm,several,multi,shares,shares_d4,held_out,spmm_held_out,spmm_held_out_between,spmm,ladders,energy", expect=1)
        written = [re.search(r"--json \S*/(\S+)[.]json", line) for line in self.asked()]
        names = [found[1] if found else "two_processes_host" for found in written]
        self.assertGreaterEqual(len(set(names)), 22, names)
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

    def test_what_a_small_gpu_skips_is_neither_passed_nor_failed(self):
        self.play(broken="small memory")
        said = self.verify("--only", "tests,spgemm")
        self.assertIn("skipped, as nothing of it can run on this GPU: spgemm\n", said)
        self.assertIn("all green", said)
        self.assertEqual(self.steps(), {"configure": True, "build": True, "tests": True, "spgemm": None})
        self.play(broken="nothing")
        self.assertNotIn("skipped", self.verify("--only", "spgemm"))
        self.assertTrue(all(self.steps().values()))

    def test_ladders_are_recorded_where_they_are_named(self):
        self.verify("--only", "tests,spgemm")
        self.assertNotIn("ladder_spmm", self.steps())
        self.verify("--only", "ladders")
        self.assertEqual({name for name in self.steps() if "ladder" in name}, {"ladder_spmm", "ladder_spgemm"})
        for name in ("ladder_spmm.json", "ladder_spgemm.json"):
            self.assertTrue((self.root / "results/nvidia-h200" / name).exists(), name)

    def test_a_grader_that_skips_its_tests_is_not_green(self):
        self.verify("--only", "tests")
        self.assertNotIn("grade", self.steps())
        path = self.root / "tests/grade/grade_tests.py"
        path.parent.mkdir(parents=True)
        for text, passed in (("print('test_attacks ... ok')", True), ("print('test_attacks ... skipped')", False), ("raise SystemExit(1)", False)):
            path.write_text(text + "\n")
            self.verify("--only", "grade", expect=0 if passed else 1)
            self.assertEqual((self.steps()["grade_build"], self.steps()["grade"]), (True, passed), text)

    def test_some_of_the_sanitizer_s_tools(self):
        for path, text in (("compute-sanitizer", "echo '[       OK ]'; ! grep -q \"$2\" \"$PLAY/broken\""), ("build/gpu/bin/battery_tests", "echo '  one'"),
                           ("build/gpu/bin/cuda_mutants_tests", "echo '  one'")):
            (self.root / path).write_text(f"#!/usr/bin/env bash\n{text}\n")
            (self.root / path).chmod(0o755)
        with unittest.mock.patch.dict(os.environ, {"STAGES_SANITIZER": "initcheck synccheck"}):
            self.verify("--only", "sanitizer")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "initcheck": True, "synccheck": True})
        with unittest.mock.patch.dict(os.environ, {"STAGES_SANITIZER": "init"}):
            self.assertIn("STAGES_SANITIZER names 'init'; give some of memcheck", self.verify("--only", "sanitizer", expect=2))
        self.play(broken="racecheck")
        self.verify("--only", "sanitizer", expect=1)
        self.assertEqual({name for name, passed in self.steps().items() if not passed}, {"racecheck_without_chain_cluster", "racecheck_small_tables"})
        self.assertTrue(self.steps()["memcheck"])

    def asked(self):
        return (self.root / "asked").read_text().splitlines()

    def listen(self):
        """From now on the program writes down what it is asked."""
        stages = self.root / "build/gpu/bin/stages"
        stages.write_text(stages.read_text().replace("while", 'echo "$*" >> "$PLAY/asked"\nwhile', 1))

    def test_the_original_s_own_cases_are_shared_out_where_they_are_named(self):
        self.listen()
        self.verify("--only", "shares,shares_d4")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "spgemm_shares": True, "spgemm_shares_d4": True})
        asked = [re.search(r"--destination distributed .*--json \S*/(\S+) --ranks (\d+)", line).groups() for line in self.asked()]
        self.assertEqual(asked, [("spgemm-shares.json", n) for n in "248"] + [("spgemm-shares-d4.json", n) for n in "12468"])
        self.verify("--only", "spgemm")
        self.assertEqual(len(self.asked()), 9)

    def test_matrices_held_out(self):
        """The generated ones of the list, and those of its files that are there."""
        self.listen()
        (self.root / "tools/sets").mkdir()
        (self.root / "mine.mtx.gz").touch()
        (self.root / "nobody.mtx.gz").touch()
        for name, record in (("held_out", "spgemm_held_out"), ("spmm_held_out",) * 2, ("spmm_held_out_between",) * 2):
            operation = record.partition("_")[0]
            (self.root / f"tools/sets/{operation}-reported.txt").write_text(
                f"# gen:none\n\ngen:{operation}:n=3\nmine.mtx.gz\nnobody.mtx\n")
            with unittest.mock.patch.dict(os.environ, {"STAGES_FILES": str(self.root)}):
                self.assertIn("nobody.mtx is not in STAGES_FILES", self.verify("--only", name))
            self.assertEqual(self.steps()[record], True)
            self.assertTrue(self.asked()[-1].startswith(f"run -m gen:{operation}:n=3 -m {self.root}/mine.mtx.gz --op {operation} "), self.asked())
            self.assertTrue(self.asked()[-1].endswith(f"/{record}.json"), self.asked())

    def test_spmv_of_matrices_held_out_is_a_record_of_its_own(self):
        self.listen()
        with unittest.mock.patch.dict(os.environ, {"STAGES_HELD_OUT": ""}):
            self.verify("--only", "spmv", "mine.mtx")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "spmv": True})
        with unittest.mock.patch.dict(os.environ, {"STAGES_HELD_OUT": "one.mtx two.mtx.gz"}):
            self.verify("--only", "spmv", "mine.mtx")
        self.assertEqual(self.steps(), {"configure": True, "build": True, "spmv": True, "spmv_held_out": True})
        alone, chosen, held_out = self.asked()
        self.assertEqual(alone, chosen)
        matrices = lambda words: [after for word, after in zip(words.split(), words.split()[1:]) if word == "-m"]
        self.assertEqual(matrices(held_out), ["one.mtx", "two.mtx.gz"])
        self.assertEqual(matrices(chosen)[-1], "mine.mtx")
        self.assertEqual(chosen.partition("--op")[2].replace("spmv.json", "spmv_held_out.json"), held_out.partition("--op")[2])
        self.assertIn("--plans 3", chosen)

    def test_double_precision_is_recorded_apart(self):
        self.listen()
        (self.root / "tools/sets").mkdir()
        for operation in ("spgemm", "spmm"):
            (self.root / f"tools/sets/{operation}-reported.txt").write_text("gen:some:n=3\n")
        with unittest.mock.patch.dict(os.environ, {"STAGES_TYPE": "f64", "STAGES_HELD_OUT": "one.mtx"}):
            self.verify("--only", "spmv,spgemm,held_out,spmm_held_out")
        names = ["spmv", "spmv_held_out", "spgemm", "spgemm_held_out", "spmm_held_out"]
        self.assertEqual(list(self.steps()), ["configure", "build"] + [f"{name}_f64" for name in names])
        for name, words in zip(names, self.asked(), strict=True):
            self.assertIn(" --type f64 ", words)
            self.assertTrue(words.endswith(f"/{name}_f64.json"), words)
        with unittest.mock.patch.dict(os.environ, {"STAGES_TYPE": "double"}):
            self.assertIn("STAGES_TYPE is 'double'; give f32 or f64", self.verify("--only", "spmv", expect=2))

    def test_held_out_files_alone(self):
        self.listen()
        with unittest.mock.patch.dict(os.environ, {"STAGES_HELD_OUT": "one.mtx"}):
            self.verify("--only", "spmv_held_out")
        self.assertEqual(list(self.steps()), ["configure", "build", "spmv_held_out"])
        self.assertEqual(len(self.asked()), 1)
        with unittest.mock.patch.dict(os.environ, {"STAGES_HELD_OUT": ""}):
            self.assertIn("spmv_held_out needs STAGES_HELD_OUT", self.verify("--only", "spmv_held_out", expect=2))

    def test_energy_is_skipped_only_where_it_is_not_known(self):
        self.verify("--only", "energy")
        self.assertEqual(self.steps()["energy"], True)
        self.play(broken="nvml")
        self.assertIn("skipped", self.verify("--only", "energy"))
        self.assertEqual(self.steps()["energy"], None)
        self.play(broken="option")
        self.assertIn("NOT green: energy", self.verify("--only", "energy", expect=1))
        self.assertEqual(self.steps()["energy"], False)

    def test_the_build_is_for_the_gpu_at_hand(self):
        (self.root / "cmake").write_text((self.root / "cmake").read_text().replace("case", 'echo "$*" >> "$PLAY/asked"\ncase', 1))
        self.verify("--only", "tests")
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=native", (self.root / "asked").read_text())

    def test_a_build_that_fails_ends_it(self):
        self.play(broken="cmake")
        self.assertIn("the build failed", self.verify("--only", "tests", expect=1))
        self.assertEqual(self.steps(), {"configure": False, "build": False})
        self.assertFalse(self.record()["complete"])

    def test_sources_without_a_digest_end_it(self):
        self.play(all_sources="CMake Error\n\nno such file")
        self.assertIn("CMake Error", self.verify("--only", "tests", expect=2))
        self.play(all_sources=OF_ALL, sources="CMake Error\n\nno such file")
        self.assertIn("CMake Error", self.verify("--only", "tests", expect=2))
        self.assertFalse((self.root / "results/nvidia-h200/verify.json").exists())

    def test_bad_usage(self):
        for words, expected in ((["--only"], "--only needs steps"), (["--only", "test"], "no step 'test'"), (["--help"], "usage:")):
            self.assertIn(expected, self.verify(*words, expect=2))
        self.assertFalse((self.root / "results").exists())


if __name__ == "__main__":
    unittest.main()
