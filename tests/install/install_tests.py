#!/usr/bin/env python3
"""The matrix library as somebody else's project meets it: installed, as a directory of that project, and with fmt fetched;
and the programs where they were installed.

usage: install_tests.py --cmake CMAKE --build DIR --root DIR [unittest options]
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PRINTED = """3 x 3, 4 non-zeros read
64 x 64, 1024 non-zeros made
64 rows written out, 12 built-in matrices, 0 empty rows
"""
# A fmt whose use can be seen in the compiler's command line.
PLAYED_FMT = """add_library(fmt INTERFACE)
add_library(fmt::fmt ALIAS fmt)
target_compile_definitions(fmt INTERFACE FMT_HEADER_ONLY=1)
"""
arguments = argparse.Namespace()


def run(*words, expect=0, **environment):
    done = subprocess.run([str(word) for word in words], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    assert done.returncode == expect, f"{words} returned {done.returncode}:\n{done.stdout}"
    return done.stdout


class InTemporaryDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)

    def configure(self, source, *options, name="build", expect=0, **environment):
        # CMake breaks its messages into lines.
        return " ".join(run(arguments.cmake, "-G", "Ninja", "-S", source, "-B", self.place / name, "-DCMAKE_BUILD_TYPE=Release",
                            *options, expect=expect, **environment).split())

    def build(self, name="build", expect=0):
        return run(arguments.cmake, "--build", self.place / name, "-j", os.cpu_count(), "--target", "uses_matrix", expect=expect)

    def require_works(self, name="build"):
        copy = self.place / "copy.mtx.gz"
        matrix = arguments.root / "data/matrix_market/accept/integer_general.mtx"
        self.assertEqual(run(self.place / name / "uses_matrix", matrix, copy), PRINTED)
        self.assertTrue(copy.stat().st_size > 0)
        self.assertIn("no.mtx", run(self.place / name / "uses_matrix", "no.mtx", copy, expect=2))

    def commands(self, name="build"):
        return (self.place / name / "compile_commands.json").read_text().splitlines()


class Installed(InTemporaryDirectory):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.prefix = pathlib.Path(directory.name) / "prefix"
        run(arguments.cmake, "--install", arguments.build, "--prefix", cls.prefix)

    def use(self, *options, expect=0):
        return self.configure(HERE, f"-DCMAKE_PREFIX_PATH={self.prefix}", *options, expect=expect)

    def headers(self):
        return sorted(self.prefix.glob("include/sparse_stages/common/matrix/*.hpp"))

    def test_a_project_finds_and_uses_it(self):
        self.use()
        self.build()
        self.require_works()
        mine = next(line for line in self.commands() if '"command"' in line)
        for flag in ("-march", "-Wconversion", "-Werror"):
            self.assertNotIn(flag, mine)
        self.assertNotIn(str(arguments.root), mine.replace(str(HERE), ""))

    def test_every_public_header_compiles_alone_and_is_used(self):
        self.assertGreater(len(self.headers()), 5)
        text = (HERE / "main.cpp").read_text()
        self.use()
        for header in self.headers():
            name = f"common/matrix/{header.name}"
            self.assertIn(f"<{name}>", text)
            source = self.place / "alone.cpp"
            source.write_text(f"#include <{name}>\n")
            run("c++", "-std=c++20", "-fsyntax-only", f"-I{self.prefix}/include/sparse_stages", *os.environ.get("CPPFLAGS", "").split(), source)

    def test_a_missing_header_is_met(self):
        header = self.prefix / "include/sparse_stages/common/matrix/byte_source.hpp"
        aside = header.rename(header.with_suffix(".aside"))
        self.addCleanup(aside.rename, header)
        self.use()
        self.assertIn("byte_source.hpp", self.build(expect=1))

    def test_a_missing_dependency_is_named(self):
        for package in ("fmt", "ZLIB"):
            self.assertIn(package, self.use(f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON", expect=1))

    def test_other_versions_and_parts_are_refused(self):
        source = self.place / "asks"
        source.mkdir()
        for asked, answer in (("0.1", "version"), ("0.3", "version"), ("1.0", "version"), ("0.2 COMPONENTS kernels", "kernels")):
            (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(asks LANGUAGES C CXX)\n"
                                                   f"find_package(sparse_stages {asked} REQUIRED)\n")
            self.assertIn(answer, self.configure(source, f"-DCMAKE_PREFIX_PATH={self.prefix}", name=asked, expect=1))

    def test_the_programs_work_where_they_are(self):
        stages = self.prefix / "bin/stages"
        self.assertIn("csr_spmv", run(stages, "list"))
        self.assertIn("01_cpu_serial", run(self.prefix / "bin/01_cpu_serial", "list"))
        said = run(stages, "new", "09_mine", "--root", self.place, expect=2)
        self.assertIn("is not the directory of sparse-stages' sources", said)
        self.assertEqual(said.count("\n"), 1)


class AsDirectory(InTemporaryDirectory):
    def test_a_project_that_holds_the_sources(self):
        # Of all that the programs need it needs nothing.
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "nlohmann_json", "GTest", "Boost", "MPI", "Eigen3")]
        # All of the library is compiled here, once more: without optimization.
        self.configure(HERE, f"-DSPARSE_STAGES={arguments.root}", "-DCMAKE_BUILD_TYPE=None", *without)
        self.build()
        self.require_works()
        own = [line for line in self.commands() if '"command"' in line]
        mine = next(line for line in own if "uses_matrix.dir" in line)
        theirs = next(line for line in own if "stages_matrix.dir" in line)
        self.assertIn("-Wconversion", theirs)
        for flag in ("-march", "-Wconversion", "-Werror"):
            self.assertNotIn(flag, mine)
        self.assertNotIn("-Werror", theirs)
        # Its own build directory alone was written to, and nothing of ours is installed with it.
        run(arguments.cmake, "--install", self.place / "build", "--prefix", self.place / "prefix")
        self.assertFalse((self.place / "prefix").exists())


class Fetched(InTemporaryDirectory):
    LIBRARY = ("-DSTAGES_PROGRAMS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON")
    NO_NETWORK = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}

    def setUp(self):
        super().setUp()
        for name in ("STAGES_FETCH", "STAGES_FETCH_FROM"):
            os.environ.pop(name, None)
        self.archives = self.place / "archives"
        (self.archives / "fmt-9.9").mkdir(parents=True)
        (self.archives / "fmt-9.9/CMakeLists.txt").write_text(PLAYED_FMT)

    def require_played_fmt(self):
        self.assertTrue(any("FMT_HEADER_ONLY" in line for line in self.commands()))

    def test_from_a_directory_of_sources(self):
        self.configure(arguments.root, *self.LIBRARY, "-DSTAGES_INSTALL=OFF", f"-DSTAGES_FETCH_FROM={self.archives}")
        self.require_played_fmt()

    def test_from_an_archive_named_by_the_environment(self):
        shutil.make_archive(str(self.archives / "fmt"), "gztar", self.archives, "fmt-9.9")
        shutil.rmtree(self.archives / "fmt-9.9")
        self.configure(arguments.root, *self.LIBRARY, "-DSTAGES_INSTALL=OFF", STAGES_FETCH_FROM=str(self.archives))
        self.require_played_fmt()
        self.configure(arguments.root)  # the build directory remembers
        self.require_played_fmt()

    def test_sources_that_cmake_was_told_of(self):
        self.configure(arguments.root, "-DSTAGES_PROGRAMS=OFF", "-DSTAGES_INSTALL=OFF", "-DSTAGES_FETCH=ON",
                       f"-DFETCHCONTENT_SOURCE_DIR_FMT={self.archives / 'fmt-9.9'}")
        self.require_played_fmt()

    def test_a_directory_without_it(self):
        shutil.rmtree(self.archives / "fmt-9.9")
        self.assertIn("begins with 'fmt', and holds 0", self.configure(arguments.root, *self.LIBRARY, f"-DSTAGES_FETCH_FROM={self.archives}", expect=1))

    def test_without_a_network(self):
        said = self.configure(arguments.root, *self.LIBRARY, "-DSTAGES_FETCH=ON", expect=1, **self.NO_NETWORK)
        self.assertIn("fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz could not be fetched", said)
        self.assertIn("-DSTAGES_FETCH_FROM=DIR", said)
        self.assertFalse((self.place / "build/fetched/fmt.tar.gz").exists())
        # A file that was damaged on its way is not taken for it at the next call.
        (self.place / "build/fetched").mkdir(exist_ok=True)
        (self.place / "build/fetched/fmt.tar.gz").write_text("half of it")
        self.assertIn("could not be fetched", self.configure(arguments.root, *self.LIBRARY, "-DSTAGES_FETCH=ON", expect=1, **self.NO_NETWORK))

    def test_without_it(self):
        said = self.configure(arguments.root, *self.LIBRARY, expect=1)
        self.assertIn("fmt not found, or too old", said)
        self.assertIn("-DSTAGES_FETCH=ON", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("--cmake", "--build", "--root"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
