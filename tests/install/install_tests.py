#!/usr/bin/env python3
"""The matrix library in somebody else's project, and the programs where they were installed.

usage: install_tests.py --cmake CMAKE --build DIR [unittest options]
"""

import os
import shutil
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played, given

PRINTED = """3 x 3, 4 non-zeros read
64 x 64, 1024 non-zeros made
64 rows written out, 12 built-in matrices, 0 empty rows
"""
CMAKE, BUILD = given("cmake", "build")


class Install(Played):
    def configure(self, source, *options, code=0):
        done = self.call(CMAKE, "-G", "Ninja", "-S", source, "-B", "build", *options, code=code)
        return " ".join(done.stderr.split())  # CMake breaks its messages into lines

    def command_of(self, target):
        """How the compiler is called for a target."""
        return next(line for line in self.read("build/compile_commands.json").splitlines() if '"command"' in line and f"{target}.dir" in line)

    def test_a_project_that_holds_the_sources(self):
        # Of all that the programs need it needs nothing. All of the library is compiled here, once more: without optimization.
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "nlohmann_json", "GTest", "Boost", "MPI", "Eigen3")]
        self.configure(ROOT / "tests/install", f"-DSPARSE_STAGES={ROOT}", "-DCMAKE_BUILD_TYPE=None", *without)
        self.call(CMAKE, "--build", "build", "-j", os.cpu_count(), "--target", "uses_matrix")
        matrix = ROOT / "data/matrix_market/accept/integer_general.mtx"
        self.assertEqual(self.call("build/uses_matrix", matrix, "copy.mtx.gz").stdout, PRINTED)
        self.assertTrue((self.directory / "copy.mtx.gz").stat().st_size > 0)
        self.assertIn("no.mtx", self.call("build/uses_matrix", "no.mtx", "copy.mtx.gz", code=2).stderr)
        self.assertIn("-Wconversion", self.command_of("stages_matrix"))
        self.assertNotIn("-Werror", self.command_of("stages_matrix"))
        for flag in ("-march", "-Wconversion", "-Werror"):
            self.assertNotIn(flag, self.command_of("uses_matrix"))
        # Its own build directory alone was written to, and nothing of ours is installed with it.
        self.call(CMAKE, "--install", "build", "--prefix", "prefix")
        self.assertFalse((self.directory / "prefix").exists())

    def test_a_directory_whose_name_a_shell_would_read(self):
        odd = self.directory / "p $x (1) it's"
        shutil.copytree(ROOT, odd, ignore=lambda where, names: {".git", "build", "out", "results"})
        self.call(CMAKE, "-G", "Ninja", "-S", odd, "-B", odd / "build")
        build = [CMAKE, "--build", odd / "build"]
        self.call(*build, "--target", "stages_source_digest", "each_task")
        self.write("commands", self.call(*build, "--", "-t", "commands", "all", "graded_cpp").stdout)
        self.call("sh", "-n", "commands")

    def test_what_is_missing_is_named(self):
        said = self.configure(ROOT, "-DSTAGES_PROGRAMS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON", code=1)
        self.assertRegex(said, "zlib, fmt not found, or too old .*: tools/install-deps.sh run installs it")
        self.bin.mkdir()
        for name in ("c++", "cc", "ar", "ranlib", "ld", "as", "ninja"):  # and no python3
            (self.bin / name).symlink_to(shutil.which(name))
        said = self.call(CMAKE, "-G", "Ninja", "-S", ROOT, "-B", "less", "-DCMAKE_IGNORE_PATH=/bin;/usr/bin;/usr/local/bin", PATH=self.bin)
        self.assertIn("the tests are left out: they need GoogleTest and Python 3", said.stdout)

    def test_the_programs_work_where_they_are(self):
        self.call(CMAKE, "--install", BUILD, "--prefix", self.directory)
        for program in ("stages", "01_cpu_serial"):
            self.assertIn("01_cpu_serial/csr_spmv", self.call(self.directory / "bin" / program, "list").stdout)
        text = (BUILD / "cmake_install.cmake").read_text()
        self.write("install.cmake", text.replace(f"{BUILD}/bin/01_cpu_serial", "/nowhere/01_cpu_serial"))
        said = self.call(CMAKE, f"-DCMAKE_INSTALL_PREFIX={self.directory}/less", "-P", "install.cmake").stdout
        self.assertIn("left out, as it is not built: 01_cpu_serial\n", said)
        self.assertTrue((self.directory / "less/bin/stages").exists())


if __name__ == "__main__":
    unittest.main()
