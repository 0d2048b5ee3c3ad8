#!/usr/bin/env python3
"""What run.sh and tools/build.sh say where something is missing, full, read-only or interrupted, with a build that scripts play.

usage: first_hour_tests.py [unittest options]
"""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 60

# The programs that play their parts. What the file `how` holds goes wrong.
PLAYED = {
    "cmake": """how=$(cat "$PLAY/how")
case "$1" in
  --preset)
    echo "cmake $*" >> "$PLAY/calls"
    [ "$how" != configure ] || { echo "CMake Error: no compiler"; exit 1; }
    echo "-- 02_mpi is left out: it needs MPI" ;;
  --build)
    echo "cmake $*" >> "$PLAY/calls"
    for k in 1 2 3; do echo "[$k/3] Building CXX object a/b$k.cpp.o"; done
    case $how in
      error) echo "FAILED: a/b3.cpp.o"; echo "b3.cpp:7: error: no such thing"; exit 1 ;;
      disk) echo "fatal error: error writing to b3.o: No space left on device"; exit 1 ;;
      memory) echo "c++: fatal error: Killed signal terminated program cc1plus"; exit 1 ;;
      slow) sleep 20 ;;
    esac
    mkdir -p "$2/bin"
    cp "$PLAY/program" "$2/bin/stages"
    cp "$PLAY/program" "$2/bin/01_cpu_serial" ;;
esac""",
    "program": """echo "$(basename "$0") $*" >> "$PLAY/calls"
echo "a table by $(basename "$0")"
code=$(cat "$PLAY/code")
while [ $# -gt 0 ]; do [ "$1" != --json ] || [ "$code" = 2 ] || echo '{}' > "$2"; shift; done
exit "$code" """,
    "nvidia-smi": "exit 1",
}


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.play = pathlib.Path(directory.name) / "play"
        self.project = pathlib.Path(directory.name) / "project"
        self.play.mkdir()
        (self.project / "tools").mkdir(parents=True)
        for script in ("run.sh", "tools/build.sh"):
            shutil.copy(ROOT / script, self.project / script)
        self.script(self.project / "tools/install-deps.sh", "exit 0")
        (self.project / "tools/report.py").write_text("print('a report')\n")
        for name, text in PLAYED.items():
            self.script(self.play / name, text)
        self.set(how="", code="0")

    def script(self, path, text):
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    def set(self, **files):
        for name, text in files.items():
            (self.play / name).write_text(text)

    def environment(self, **more):
        return {**{k: v for k, v in os.environ.items() if not k.startswith("STAGES_")}, "PLAY": str(self.play),
                "PATH": f"{self.play}:{os.environ['PATH']}", **more}

    def run_script(self, *words, code=0, **environment):
        done = subprocess.run([self.project / words[0], *words[1:]], env=self.environment(**environment), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def calls(self):
        path = self.play / "calls"
        return path.read_text().splitlines() if path.exists() else []


class Build(Case):
    def build(self, *words, **options):
        return self.run_script("tools/build.sh", "cpu", *words, **options)

    def test_good(self):
        done = self.build("stages")
        self.assertEqual(done.stdout, "")
        self.assertIn("02_mpi is left out: it needs MPI", done.stderr)
        self.assertNotIn("Building", done.stderr)
        self.assertIn("--target stages", self.calls()[-1])

    def test_how_far_it_is(self):
        """On a terminal: a line that is written again and again."""
        main, side = pty.openpty()
        done = subprocess.Popen([self.project / "tools/build.sh", "cpu"], env=self.environment(TERM="xterm"), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=side)
        os.close(side)
        said = b""
        while True:
            try:
                part = os.read(main, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
        self.assertEqual(done.wait(LIMIT), 0)
        os.close(main)
        self.assertIn(b"\rbuilding cpu", said.replace(b"\x1b[K", b""))
        self.assertIn(b"3 of 3", said)

    def test_errors_are_shown(self):
        self.set(how="error")
        said = self.build(code=1).stderr
        self.assertIn("b3.cpp:7: error: no such thing", said)
        self.assertNotIn("Building", said)
        self.assertRegex(said.splitlines()[-1], r"^build: the build of cpu failed; all that was said is in build/cpu/build.log$")
        self.set(how="configure")
        said = self.build(code=1).stderr
        self.assertIn("no compiler", said)
        self.assertIn("the configuration of cpu failed", said)

    def test_a_full_disk(self):
        self.set(how="disk")
        said = self.build(code=1).stderr.splitlines()[-1]
        self.assertRegex(said, r"^build: the disk of build/cpu is full; .*STAGES_BUILD=")
        self.set(how="")
        self.build()  # and the next call goes on

    def test_too_little_memory(self):
        self.set(how="memory")
        self.assertRegex(self.build(code=1).stderr.splitlines()[-1], r"^build: the compiler ran out of memory; .*CMAKE_BUILD_PARALLEL_LEVEL=1")

    def test_a_place_that_cannot_be_written(self):
        (self.project / "build").write_text("a file where a directory should be")
        said = self.build(code=2).stderr
        self.assertRegex(said, r"^build: build/cpu cannot be written; .*STAGES_BUILD=")
        self.assertEqual(self.calls(), [])
        elsewhere = self.play / "elsewhere"
        self.build(STAGES_BUILD=str(elsewhere))
        self.assertTrue((elsewhere / "cpu/bin/stages").exists())

    def test_an_interruption(self):
        self.set(how="slow")
        process = subprocess.Popen([self.project / "tools/build.sh", "cpu"], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(200):
            if any("--build" in call for call in self.calls()):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("interrupted; the same call goes on from here", said)
        self.set(how="")
        self.build()

    def test_usage(self):
        self.assertIn("usage: tools/build.sh PRESET", self.run_script("tools/build.sh", code=2).stderr)


class Run(Case):
    def test_the_first_step_comes_first(self):
        done = self.run_script("run.sh")
        built = [call.split("--target ")[1] for call in self.calls() if "--target" in call]
        self.assertEqual(built, ["01_cpu_serial", "stages"])
        self.assertLess(done.stdout.index("a table by 01_cpu_serial"), done.stdout.index("a table by stages"))
        self.assertIn("results.json", done.stdout)
        self.calls_before = len(self.calls())
        self.run_script("run.sh")  # the second time it is there
        built = [call.split("--target ")[1] for call in self.calls()[self.calls_before:] if "--target" in call]
        self.assertEqual(built, ["stages"])

    def test_arguments_are_those_of_run(self):
        done = self.run_script("run.sh", "-m", "a.mtx")
        self.assertEqual(self.calls()[-1], "stages run -m a.mtx")
        self.assertNotIn("01_cpu_serial", done.stdout)

    def test_exit_codes_pass_through(self):
        for code in (1, 2, 77):
            self.set(code=str(code))
            self.run_script("run.sh", code=code)
            self.run_script("run.sh", "-m", "a.mtx", code=code)

    def test_results_of_an_earlier_run_are_not_shown(self):
        self.run_script("run.sh")
        self.script(self.play / "program", "exit 139")
        done = self.run_script("run.sh", code=139)
        self.assertIn("left no results", done.stderr)
        self.assertNotIn("results.json", done.stdout)
        self.assertFalse((self.project / "out/results.json").exists())

    def test_which_gpus_are_used(self):
        gpu = """case $1 in
  -L) cat "$PLAY/gpu"; [ -s "$PLAY/gpu" ] ;;
  --query-gpu=compute_cap) cat "$PLAY/capability" ;;
esac"""
        self.script(self.play / "nvidia-smi", gpu)
        self.script(self.play / "nvcc", 'echo "Cuda compilation tools, release $(cat "$PLAY/cuda"), V"')
        for cuda, capability, name, preset, said in (
                ("12.4", "7.5", "GPU 0: T4", "gpu", ""), ("13.0", "9.0", "GPU 0: H200", "gpu", ""),
                ("12.0", "7.5", "GPU 0: T4", "cpu", "nvcc is of CUDA 12.0, and 12.4 is needed"),
                ("12.4", "7.0", "GPU 0: V100", "cpu", "compute capability 7.0, and 7.5 is needed"), ("12.4", "", "", "cpu", "no NVIDIA GPU")):
            self.set(cuda=cuda, capability=capability, gpu=name)
            done = self.run_script("run.sh", "-m", "a.mtx")
            self.assertIn(f"--preset {preset} ", [call for call in self.calls() if "--preset" in call][-1])
            self.assertIn(said, done.stderr)
        self.run_script("run.sh", "-m", "a.mtx", STAGES_PRESET="gpu")
        self.assertIn("--preset gpu ", [call for call in self.calls() if "--preset" in call][-1])

    def test_results_that_cannot_be_written(self):
        (self.project / "out").write_text("a file where a directory should be")
        said = self.run_script("run.sh", code=2).stderr
        self.assertRegex(said.splitlines()[-1], r"^run: .*out cannot be written; .*STAGES_OUT=")
        self.assertEqual(self.calls(), [])
        self.run_script("run.sh", STAGES_OUT=str(self.play / "results"))
        self.assertTrue((self.play / "results/results.json").exists())

    def test_a_build_elsewhere(self):
        self.run_script("run.sh", STAGES_BUILD=str(self.play / "elsewhere"), STAGES_OUT=str(self.play / "results"))
        self.assertEqual(sorted(p.name for p in self.project.iterdir()), ["run.sh", "tools"])  # a checkout that is read-only will do

    def test_a_failed_build_ends_it(self):
        self.set(how="error")
        done = self.run_script("run.sh", code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("no such thing", done.stderr)


if __name__ == "__main__":
    unittest.main()
