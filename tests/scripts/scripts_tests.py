#!/usr/bin/env python3
"""What install-deps.sh, build.sh and run.sh do where something is missing, full, read-only or interrupted, on machines that scripts play;
the compiler cache; and the files that containers, jobs and CI are made of.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played, on_terminal

# Real programs that install-deps.sh uses; nothing else of this machine is seen by it.
REAL = "bash env dirname mkdir rm awk sed grep sort head tail paste find flock cat touch ln true".split()
# Files of the place say how these play: missing (keys that the probe finds missing), uid, may_sudo, apt (what goes wrong),
# cmake_version, cmake_fails, half_done, no_modules; log collects the calls.
MACHINE = {
    "cmake": """if [ "$1" = --version ]; then echo "cmake version $(cat "$PLAY/cmake_version")"; exit; fi
[ ! -e "$PLAY/cmake_fails" ] || { echo "CMake Error: cannot write: No space left on device"; exit 1; }
cat "$PLAY/missing" > "${STAGES_BUILD:-build}/probe/missing.txt\"""",
    **dict.fromkeys(("ninja", "c++", "ccache", "bwrap"), "exit 0"),
    "id": "cat \"$PLAY/uid\"",
    "sudo": """echo "sudo $*" >> "$PLAY/log"
[ "$1" = -n ] && grep -q yes "$PLAY/may_sudo" && shift && exec "$@\"""",
    "dpkg": "echo \"dpkg $*\" >> \"$PLAY/log\"; rm -f \"$PLAY/half_done\"",
    "apt-get": """for word; do case $word in -*|*=*|install) ;; *) echo "apt-get $word" >> "$PLAY/log" ;; esac; done
case "$*" in *" update") ! grep -q update "$PLAY/apt"; exit ;; esac
[ ! -e "$PLAY/half_done" ] || { echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct it"; exit 100; }
for word; do
  if grep -qx "$word" "$PLAY/apt"; then echo "E: Unable to locate package $word"; exit 100; fi
done
! grep -q full "$PLAY/apt" || { echo "E: You don't have enough free space in /var/cache/apt/archives/."; exit 100; }
for word; do
  case $word in
    libfmt-dev) sed -i /^fmt/d "$PLAY/missing" ;;
    libeigen3-dev) sed -i /^eigen/d "$PLAY/missing" ;;
    libopenmpi-dev) sed -i /^mpi/d "$PLAY/missing" ;;
    cmake) ln -s "$PLAY/cmake" "$PLAY/bin/cmake" ;;
    chromium|clang|clang-format) ln -sf "$PLAY/ninja" "$PLAY/bin/${word/clang/clang++}"; ln -sf "$PLAY/ninja" "$PLAY/bin/clang-format" ;;
  esac
done""",
    "python": "! grep -qx \"${!#}\" \"$PLAY/no_modules\" 2> /dev/null",
}


class InstallDeps(Played):
    def setUp(self):
        super().setUp()
        text = (ROOT / "tools/install-deps.sh").read_text()
        self.assertIn("python=/usr/bin/python3", text)
        self.script("tools/install-deps.sh", text.replace("python=/usr/bin/python3", f"python={self.bin}/python"))
        self.bin.mkdir()
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name))
        for name, text in MACHINE.items():
            self.script(name, text)
            (self.bin / name).symlink_to(self.directory / name)
        self.environment = {"PLAY": str(self.directory), "PATH": str(self.bin)}
        self.play(missing="", uid="0", may_sudo="no", apt="", cmake_version="3.22.1")

    def install(self, purpose="run", code=0, lines=None, **environment):
        """What it says, and what it asked apt for."""
        self.write("log", "")
        done = self.call(self.directory / "tools/install-deps.sh", purpose, code=code, **environment)
        self.assertEqual(done.stdout, "")
        if lines is not None:
            self.assertEqual(done.stderr.count("\n"), lines, done.stderr)
        asked = [line.split()[1] for line in self.read("log").splitlines() if line.startswith("apt-get ")]
        return done.stderr, [word for word in asked if word != "update"]

    def test_root_gets_what_cmake_misses_and_no_more(self):
        self.assertEqual((self.install(), self.read("log")), (("", []), ""))
        self.play(missing="fmt\neigen\ngoogletest")
        said, installed = self.install()
        self.assertIn("installing libfmt-dev libeigen3-dev\n", said)
        self.assertEqual(installed, ["libfmt-dev", "libeigen3-dev"])
        self.assertEqual(self.install(), ("", []))
        self.play(missing="fmt", uid="1000")
        self.assertEqual(self.install(STAGES_SKIP_DEPS="1"), ("", []))

    def test_others_get_it_by_sudo_without_a_password_or_are_told_what_to_do(self):
        self.play(missing="fmt", uid="1000", may_sudo="yes")
        self.assertEqual(self.install()[1], ["libfmt-dev"])
        self.assertIn("sudo -n env", self.read("log"))
        self.play(missing="fmt\nzlib", may_sudo="no")
        said, installed = self.install(code=2, lines=1)
        for words in ("missing, or too old: fmt 8, zlib", "apt-get install libfmt-dev", "dnf install fmt-devel"):
            self.assertIn(words, said)
        self.assertRegex(self.read("log"), r"^(sudo -n .*\n)*$")
        self.assertEqual(installed, [])
        self.play(missing="mpi\nboost")
        said, _ = self.install(lines=1)
        self.assertIn("left out, and the rest works without: MPI 3.0 (02_mpi, several ranks), Boost.Context", said)
        self.assertIn("libopenmpi-dev openmpi-bin libboost-context-dev", said)
        self.play(missing="zlib")
        for name in ("sudo", "apt-get", "dpkg"):
            (self.bin / name).unlink()
        self.assertRegex(self.install(code=2, lines=1)[0], "zlib-devel;")

    def test_a_wanted_package_that_is_not_to_be_had_hinders_no_other(self):
        self.play(missing="eigen\ngraphblas\nmpi", apt="libgraphblas-dev")
        said, installed = self.install()
        self.assertIn("Unable to locate package libgraphblas-dev", said)
        self.assertIn("left out, and the rest works without: GraphBLAS 7 (vendor/graphblas). ", said)
        self.assertIn("libeigen3-dev", installed)
        self.assertEqual(self.install()[1], [])  # and it is not asked for again today

    def test_what_goes_wrong_with_apt(self):
        """No network, a full disk, an interruption: it is told, and the next call goes on."""
        self.play(missing="fmt", apt="update\nlibfmt-dev")
        said, _ = self.install(code=2)
        self.assertRegex(said, "lists could not be renewed(.|\n)*could not install libfmt-dev: E: Unable")
        self.play(apt="full")
        self.assertIn("could not install libfmt-dev: E: You don't have enough free space", self.install(code=2)[0])
        self.play(apt="", half_done="yes")
        self.assertEqual(self.install()[1], ["libfmt-dev", "libfmt-dev"])
        self.assertIn("dpkg --configure -a", self.read("log"))
        self.play(cmake_fails="yes")
        self.assertIn("No space left on device", self.install(code=2)[0])

    def test_without_cmake_or_with_an_old_one(self):
        """Without it, it is asked for the rest afterwards."""
        self.play(uid="1000", cmake_version="3.18.4")
        (self.bin / "c++").unlink()
        self.assertIn("CMake 3.22, g++ 11", self.install(code=2)[0])
        self.play(cmake_version="3.100.0")
        self.assertNotIn("CMake", self.install(code=2)[0].split(". ")[0])
        (self.bin / "c++").symlink_to(self.directory / "c++")
        self.play(uid="0", cmake_version="3.22.1", missing="fmt\neigen", no_modules="jinja2")
        (self.bin / "cmake").unlink()
        said, installed = self.install()
        self.assertEqual(installed, ["cmake", "python3-matplotlib", "python3-jinja2", "libfmt-dev", "libeigen3-dev"])
        self.assertEqual(said.count("left out, and the rest works without: matplotlib"), 1)

    def test_purposes(self):
        self.play(missing="googletest", uid="1000", no_modules="scipy")
        self.assertEqual(self.install("run")[0], "")
        said, _ = self.install("test", code=2)
        self.assertRegex(said, "scipy(.|\n)*GoogleTest")
        self.assertNotIn("chromium", said)
        self.play(missing="eigen", no_modules="")
        self.assertIn("left out", self.install("test")[0])
        said, _ = self.install("all", code=2)
        self.assertIn("chromium", said)
        self.assertNotIn("left out", said)
        self.assertIn("no purpose 'tests'", self.install("tests", code=2)[0])
        self.play(missing="", uid="0")
        self.assertEqual(self.install("test")[1], [])
        self.assertIn("chromium", self.install("all")[1])

    def test_a_place_that_cannot_be_written(self):
        self.write("build", "in the way\n")
        self.assertIn("build/probe cannot be written", self.install(code=2, lines=1)[0])
        self.assertEqual(self.install(STAGES_BUILD=str(self.directory / "elsewhere"))[0], "")
        self.assertTrue((self.directory / "elsewhere/probe").is_dir())


# A build, and the programs that come of it. The file `how` says what goes wrong.
BUILD = {
    "bin/cmake": """how=$(cat "$PLAY/how")
echo "cmake $*" >> "$PLAY/calls"
case "$1" in
  --preset)
    [ "$how" != configure ] || { echo "CMake Error: no compiler"; exit 1; }
    echo "-- 02_mpi is left out: it needs MPI" ;;
  --build)
    for k in 1 2 3; do echo "[$k/3] Building CXX object a/b$k.cpp.o"; done
    case $how in
      error) echo "FAILED: a/b3.cpp.o"; echo "b3.cpp:7: error: no such thing"; exit 1 ;;
      disk) echo "fatal error: error writing to b3.o: No space left on device"; exit 1 ;;
      memory) echo "c++: fatal error: Killed signal terminated program cc1plus"; exit 1 ;;
      slow) echo $$ > "$PLAY/started"; sleep 20 ;;
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
    "bin/nvidia-smi": """case $1 in
  -L) grep . "$PLAY/gpu" ;;
  --query-gpu=compute_cap) cat "$PLAY/capability" ;;
esac""",
    "bin/nvcc": 'echo "Cuda compilation tools, release $(cat "$PLAY/cuda"), V"',
    "project/tools/install-deps.sh": "exit 0",
    "project/tools/report.py": "print('a report')",
}


class FirstHour(Played):
    def setUp(self):
        super().setUp()
        for name, text in BUILD.items():
            self.script(name, text)
        self.project = self.directory / "project"
        for name in ("run.sh", "tools/build.sh"):
            shutil.copy(ROOT / name, self.project / name)
        self.play(how="", code="0")

    def build(self, *words, **options):
        return self.call(self.project / "tools/build.sh", "cpu", *words, **options)

    def run_script(self, *words, **options):
        return self.call(self.project / "run.sh", *words, **options)

    def calls(self):
        return self.read("calls").splitlines()

    def targets(self):
        return [call.split("--target ")[1] for call in self.calls() if "--target" in call]

    def test_how_far_it_is(self):
        """On a terminal: a line that is written again and again."""
        said, code = on_terminal(self.project / "tools/build.sh", "cpu", environment=self.environment)
        self.assertEqual(code, 0)
        self.assertIn("\rbuilding cpu", said.replace("\x1b[K", ""))
        self.assertIn("3 of 3", said)

    def test_a_build_and_what_goes_wrong_with_it(self):
        self.assertIn("usage: tools/build.sh PRESET", self.call(self.project / "tools/build.sh", code=2).stderr)
        for how, said, last in (("error", "b3.cpp:7: error: no such thing", "the build of cpu failed; all that was said is in build/cpu/build.log$"),
                                ("configure", "no compiler", "the configuration of cpu failed"),
                                ("disk", "", "the disk of build/cpu is full; .*STAGES_BUILD="),
                                ("memory", "", "the compiler ran out of memory; .*CMAKE_BUILD_PARALLEL_LEVEL=1")):
            with self.subTest(how=how):
                self.write("how", how)
                shown = self.build(code=1).stderr
                self.assertIn(said, shown)
                self.assertNotIn("Building", shown)
                self.assertRegex(shown.splitlines()[-1], f"^build: {last}")
        self.write("how", "")
        self.write("calls", "")
        done = self.build("stages")  # the next call goes on
        self.assertEqual((done.stdout, self.targets()), ("", ["stages"]))
        self.assertIn("02_mpi is left out: it needs MPI", done.stderr)
        self.assertNotIn("Building", done.stderr)

    def test_an_interruption(self):
        """As by Ctrl-C, and by `kill`, while another call waits. Nothing that was started goes on."""
        begin = lambda: subprocess.Popen([self.project / "tools/build.sh", "cpu"], env=self.environment, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for send, number in ((os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)):
            self.write("how", "slow")
            self.write("started", "")
            process = begin()
            while not (started := self.read("started").strip()):
                time.sleep(0.01)
            self.write("how", "")
            other = begin()
            self.assertEqual(other.stderr.readline(), "build: waiting for another one, which builds in build/cpu\n")
            send(process.pid, number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 130, said)
            self.assertIn("interrupted; the same call goes on from here", said)
            self.assertFalse(os.path.exists(f"/proc/{started}"))
            self.assertIn("building preset cpu", other.communicate(timeout=60)[1])

    def test_places_that_cannot_be_written(self):
        self.write("project/build", "a file where a directory should be")
        self.assertRegex(self.build(code=2).stderr, "^build: build/cpu cannot be written; .*STAGES_BUILD=")
        self.write("project/out", "another")
        self.assertRegex(self.run_script(code=2).stderr.splitlines()[-1], "^run: .*out cannot be written; .*STAGES_OUT=")
        self.assertEqual(self.calls(), [])
        for name in ("build", "out"):
            (self.project / name).unlink()
        # A checkout that is read-only will do.
        self.run_script(STAGES_BUILD=str(self.directory / "elsewhere"), STAGES_OUT=str(self.directory / "results"))
        self.assertEqual(sorted(path.name for path in self.project.iterdir()), ["run.sh", "tools"])
        self.assertTrue((self.directory / "elsewhere/cpu/bin/stages").exists() and (self.directory / "results/results.json").exists())

    def test_which_programs_run(self):
        """The first step comes first, the second time it is there; with arguments, those of `stages run`. Exit codes pass through."""
        done = self.run_script()
        self.assertEqual(self.targets(), ["01_cpu_serial", "stages"])
        self.assertRegex(done.stdout, "a table by 01_cpu_serial(.|\n)*a table by stages(.|\n)*results.json")
        self.run_script()
        self.assertEqual(self.targets(), ["01_cpu_serial", "stages", "stages"])
        for code in (1, 2, 77):
            self.write("code", str(code))
            self.run_script(code=code)
            self.assertNotIn("01_cpu_serial", self.run_script("-m", "a.mtx", code=code).stdout)
            self.assertEqual(self.calls()[-1], "stages run -m a.mtx")
        self.script("program", "exit 139")  # results of an earlier run are not shown
        done = self.run_script(code=139)
        self.assertIn("left no results", done.stderr)
        self.assertNotIn("results.json", done.stdout)
        self.assertFalse((self.project / "out/results.json").exists())
        self.write("how", "error")
        done = self.run_script(code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("no such thing", done.stderr)

    def test_which_gpus_are_used(self):
        for *machine, preset, said in (
                ("12.4", "7.5", "GPU 0: T4", "gpu", ""), ("13.0", "9.0", "GPU 0: H200", "gpu", ""),
                ("12.0", "7.5", "GPU 0: T4", "cpu", "nvcc is of CUDA 12.0, and 12.4 is needed"),
                ("12.4", "7.0", "GPU 0: V100", "cpu", "compute capability 7.0, and 7.5 is needed"), ("12.4", "", "", "cpu", "no NVIDIA GPU")):
            self.play(**dict(zip(("cuda", "capability", "gpu"), machine)))
            done = self.run_script("-m", "a.mtx")
            self.assertIn(f"--preset {preset} ", [call for call in self.calls() if "--preset" in call][-1])
            self.assertIn(said, done.stderr)
        self.run_script("-m", "a.mtx", STAGES_PRESET="gpu")
        self.assertIn("--preset gpu ", [call for call in self.calls() if "--preset" in call][-1])


@unittest.skipUnless(shutil.which("ccache"), "no ccache")
class Cache(Played):
    """A build whose compiler cache was filled by another version of the sources."""

    PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(cached CXX)
include({ROOT}/cmake/StagesCache.cmake)
add_library(cached OBJECT source.cpp)
target_compile_options(cached PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
target_precompile_headers(cached PRIVATE header.hpp)
"""

    def build(self, comment, value):
        """Builds anew, and returns how often the cache had what was asked for."""
        self.environment |= {"CCACHE_DIR": str(self.directory / "cache"), "CCACHE_CONFIGPATH": os.devnull}
        shutil.rmtree(self.directory / "build", ignore_errors=True)
        self.write("CMakeLists.txt", self.PROJECT)
        self.write("header.hpp", f"#pragma once\n// {comment}\nstruct Once {{}};\n")
        self.write("source.cpp", f'#include "header.hpp"\n\nint value(Once) {{ return {value}; }}\n')
        time.sleep(1.1)  # ccache does not trust what is younger than the compilation
        self.call("ccache", "--zero-stats")
        self.call("cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_BUILD_TYPE=Release")
        self.call("cmake", "--build", "build")
        counts = dict(line.split("\t") for line in self.call("ccache", "--print-stats").stdout.splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])

    def test_a_comment_of_a_precompiled_header_may_change(self):
        self.assertEqual([self.build("one", 1), self.build("another", 2)], [0, 0])
        self.assertEqual(self.build("one", 1), 2, "both the header and the source are in the cache")

    def test_one_that_is_installed_later_compiles_nothing_anew(self):
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.22)\nproject(cached NONE)\nset(CMAKE_IGNORE_PATH ${HIDDEN})\n"
                                     f"include({ROOT}/cmake/StagesCache.cmake)\nmessage(\"by ${{CMAKE_CXX_COMPILER_LAUNCHER}}\")\n")
        for options, found in (("-DHIDDEN=/bin;/usr/bin;/usr/local/bin", False), ("-DHIDDEN=", False), ("-USTAGES_CCACHE", True)):
            self.assertEqual("ccache" in self.call("cmake", "-G", "Ninja", "-B", "build", options).stderr, found, options)


class Files(unittest.TestCase):
    """Files that other programs read: what they name is there."""

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no yaml (Debian: python3-yaml)")
    def test_workflows(self):
        import yaml

        for path in (ROOT / ".github/workflows").glob("*.yml"):
            for name, job in yaml.safe_load(path.read_text())["jobs"].items():
                with self.subTest(job=name):
                    self.assertLessEqual({"runs-on", "timeout-minutes", "steps"}, set(job))
                    for step in job["steps"]:
                        self.assertEqual(len({"run", "uses"} & set(step)), 1, step)
                        for script in re.findall(r"(?:bash |\./)([\w./-]+)", step.get("run", "")):
                            self.assertTrue((ROOT / script).is_file(), script)

    def test_what_containers_copy(self):
        for name in re.findall(r"(?m)^COPY (?:--\S+ )*(\S+) ", (ROOT / "Containerfile").read_text()):
            self.assertTrue((ROOT / name).exists(), name)

    def test_jobs(self):
        """Job files are bash, and what Slurm reads stands before the first command."""
        for path in (ROOT / "slurm").glob("*.sbatch"):
            with self.subTest(job=path.name):
                self.assertEqual(subprocess.run(["bash", "-n", path], timeout=60, check=False).returncode, 0)
                lines = path.read_text().splitlines()
                first = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
                orders = [k for k, line in enumerate(lines) if line.startswith("#SBATCH")]
                self.assertTrue(lines[0].startswith("#!") and orders and max(orders) < first, "Slurm does not read what stands after a command")


if __name__ == "__main__":
    unittest.main()
