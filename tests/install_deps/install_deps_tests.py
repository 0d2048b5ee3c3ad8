#!/usr/bin/env python3
"""What tools/install-deps.sh installs and says, on machines that are played by scripts: cmake, apt-get, sudo and the rest.

usage: install_deps_tests.py [unittest options]
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Real programs that the script uses; nothing else of this machine is seen by it.
REAL = "bash env dirname mkdir rm awk sed grep sort head tail paste find flock cat touch ln true".split()
# The programs that play their parts. Files in $PLAY say how: missing (keys that the probe finds missing), uid, may_sudo, apt (what
# goes wrong), cmake_version; log collects the calls.
PLAYED = {
    "cmake": """if [ "$1" = --version ]; then echo "cmake version $(cat "$PLAY/cmake_version")"; exit; fi
echo "cmake $*" >> "$PLAY/log"
[ ! -e "$PLAY/cmake_fails" ] || { echo "CMake Error: cannot write: No space left on device"; exit 1; }
cat "$PLAY/missing" > "${STAGES_BUILD:-build}/probe/missing.txt\"""",
    "ninja": "exit 0",
    "c++": "exit 0",
    "ccache": "exit 0",
    "bwrap": "exit 0",
    "id": "cat \"$PLAY/uid\"",
    "sudo": """echo "sudo $*" >> "$PLAY/log"
[ "$1" = -n ] || { echo "sudo asked for a password" >> "$PLAY/log"; exit 1; }
grep -q yes "$PLAY/may_sudo" || exit 1
shift
exec "$@\"""",
    "dpkg": "echo \"dpkg $*\" >> \"$PLAY/log\"; rm -f \"$PLAY/half_done\"",
    "apt-get": """for word; do case $word in -*|*=*) ;; *) echo "apt-get $word" >> "$PLAY/log" ;; esac; done
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


class InstallDeps(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "tools").mkdir()
        (self.root / "bin").mkdir()
        text = (ROOT / "tools/install-deps.sh").read_text()
        self.assertIn("python=/usr/bin/python3", text)
        script = self.root / "tools/install-deps.sh"
        script.write_text(text.replace("python=/usr/bin/python3", f"python={self.root}/bin/python"))
        script.chmod(0o755)
        for name in REAL:
            (self.root / "bin" / name).symlink_to(shutil.which(name))
        for name, body in PLAYED.items():
            path = self.root / name
            path.write_text(f"#!/usr/bin/env bash\n{body}\n")
            path.chmod(0o755)
            (self.root / "bin" / name).symlink_to(path)
        self.play(missing="", uid="0", may_sudo="no", apt="", cmake_version="3.22.1", log="")

    def play(self, **files):
        for name, text in files.items():
            (self.root / name).write_text(text + "\n" if text else "")

    def take_away(self, *names):
        for name in names:
            (self.root / "bin" / name).unlink()

    def install(self, purpose="run", expect=0, **environment):
        self.play(log="")
        done = subprocess.run([self.root / "tools/install-deps.sh", purpose], capture_output=True, text=True, timeout=60, check=False,
                              env={"PLAY": str(self.root), "PATH": str(self.root / "bin"), **environment})
        self.assertEqual(done.returncode, expect, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def log(self):
        return (self.root / "log").read_text()

    def installed(self):
        return [line.split()[1] for line in self.log().splitlines() if line.startswith("apt-get ") and line.split()[1] not in ("update", "install")]

    def test_nothing_missing_is_nothing_done(self):
        self.assertEqual(self.install(), "")
        self.assertNotIn("apt-get", self.log())
        self.assertNotIn("sudo", self.log())

    def test_root_gets_what_cmake_misses_and_no_more(self):
        self.play(missing="fmt\neigen\ngoogletest")
        self.assertIn("installing libfmt-dev libeigen3-dev\n", self.install())
        self.assertEqual(self.installed(), ["libfmt-dev", "libeigen3-dev"])
        self.assertEqual(self.install(), "")

    def test_whatever_packages_dpkg_knows_cmake_decides(self):
        self.play(missing="fmt", uid="1000")  # no dpkg is asked: it would say what it likes
        self.take_away("dpkg")
        self.assertIn("missing, or too old: fmt 8", self.install(expect=2))

    def test_who_may_use_sudo_without_a_password(self):
        self.play(missing="fmt", uid="1000", may_sudo="yes")
        self.install()
        self.assertIn("sudo -n env", self.log())
        self.assertEqual(self.installed(), ["libfmt-dev"])

    def test_who_may_not_is_told_what_to_do_and_asked_nothing(self):
        self.play(missing="fmt", uid="1000")
        said = self.install(expect=2)
        self.assertEqual(said.count("\n"), 1)
        for words in ("fmt 8", "apt-get install libfmt-dev", "dnf install fmt-devel", "conda-forge fmt", "STAGES_FETCH=ON"):
            self.assertIn(words, said)
        self.assertNotIn("password", self.log())
        self.assertEqual(self.installed(), [])

    def test_no_sudo_and_no_apt(self):
        self.play(missing="zlib", uid="1000")
        self.take_away("sudo", "apt-get")
        said = self.install(expect=2)
        self.assertIn("zlib-devel", said)
        self.assertNotIn("STAGES_FETCH", said)

    def test_what_is_only_wanted_is_left_out(self):
        self.play(missing="mpi\nboost", uid="1000")
        said = self.install()
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("left out, and the rest works without: MPI 3.0 (02_mpi, several ranks), Boost.Context", said)
        self.assertIn("libopenmpi-dev openmpi-bin libboost-context-dev", said)

    def test_a_wanted_package_that_is_not_to_be_had_hinders_no_other(self):
        self.play(missing="eigen\ngraphblas\nmpi", apt="libgraphblas-dev")
        said = self.install()
        self.assertIn("Unable to locate package libgraphblas-dev", said)
        self.assertIn("left out, and the rest works without: GraphBLAS 7 (vendor/graphblas). ", said)
        self.assertIn("libeigen3-dev", self.installed())
        self.install()  # and it is not asked for again today
        self.assertEqual(self.installed(), [])

    def test_no_network(self):
        self.play(missing="fmt", apt="update\nlibfmt-dev")
        said = self.install(expect=2)
        self.assertIn("lists could not be renewed", said)
        self.assertIn("could not install libfmt-dev: E: Unable", said)
        self.assertIn("STAGES_FETCH=ON", said)
        self.play(apt="")  # the network is there again: the next call goes on
        self.install()
        self.assertEqual(self.installed(), ["libfmt-dev"])

    def test_a_full_disk(self):
        self.play(missing="fmt", apt="full")
        self.assertIn("could not install libfmt-dev: E: You don't have enough free space", self.install(expect=2))
        self.play(cmake_fails="yes")
        self.assertIn("No space left on device", self.install(expect=2))

    def test_an_interrupted_installation_is_ended_first(self):
        self.play(missing="fmt", half_done="yes")
        self.install()
        self.assertIn("dpkg --configure -a", self.log())
        self.assertEqual(self.installed(), ["libfmt-dev", "libfmt-dev"])

    def test_without_cmake_it_is_asked_for_the_rest_afterwards(self):
        self.play(missing="fmt\neigen", no_modules="jinja2")
        self.take_away("cmake")
        said = self.install()
        self.assertEqual(self.installed(), ["cmake", "python3-matplotlib", "python3-jinja2", "libfmt-dev", "libeigen3-dev"])
        self.assertEqual(said.count("left out, and the rest works without: matplotlib"), 1)
        self.install()
        self.assertEqual(self.installed(), [])

    def test_an_old_cmake_or_no_compiler(self):
        self.play(uid="1000", cmake_version="3.18.4")
        self.take_away("c++")
        said = self.install(expect=2)
        self.assertIn("CMake 3.22, g++ 11", said)
        self.play(cmake_version="3.100.0")
        self.assertNotIn("CMake", self.install(expect=2).split(". ")[0])

    def test_purposes(self):
        self.play(missing="googletest", uid="1000", no_modules="scipy")
        self.assertEqual(self.install("run"), "")
        said = self.install("test", expect=2)
        self.assertIn("GoogleTest", said)
        self.assertIn("scipy", said)
        self.assertNotIn("chromium", said)
        self.play(missing="eigen", uid="1000", no_modules="")
        self.assertIn("left out", self.install("test"))
        said = self.install("all", expect=2)
        self.assertIn("chromium", said)
        self.assertNotIn("left out", said)
        self.assertIn("no purpose 'tests'", self.install("tests", expect=2))
        self.play(missing="", uid="0", no_modules="")
        self.install("test")
        self.assertEqual(self.installed(), [])
        self.install("all")
        self.assertIn("chromium", self.installed())

    def test_libraries_that_are_fetched_are_not_missing(self):
        self.play(missing="fmt\ncli11\njson", uid="1000")
        self.assertEqual(self.install(STAGES_FETCH="ON"), "")
        (self.root / "build/cpu").mkdir(parents=True)
        (self.root / "build/cpu/CMakeCache.txt").write_text("STAGES_FETCH:BOOL=ON\n")
        self.assertEqual(self.install(), "")
        self.play(missing="fmt\nzlib")
        self.assertNotIn("fmt", self.install(expect=2))

    def test_it_can_be_turned_off(self):
        self.play(missing="fmt", uid="1000")
        self.assertEqual(self.install(STAGES_SKIP_DEPS="1"), "")
        self.assertEqual(self.log(), "")

    def test_a_place_that_cannot_be_written(self):
        (self.root / "build").write_text("in the way\n")
        said = self.install(expect=2)
        self.assertIn("build/probe cannot be written", said)
        self.assertEqual(said.count("\n"), 1)
        self.assertEqual(self.install(STAGES_BUILD=str(self.root / "elsewhere")), "")
        self.assertTrue((self.root / "elsewhere/probe").is_dir())


if __name__ == "__main__":
    unittest.main()
