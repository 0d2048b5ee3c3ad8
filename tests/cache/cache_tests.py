#!/usr/bin/env python3
"""A build whose compiler cache was filled by another version of the sources.

usage: cache_tests.py [unittest options]; ends with 77 where there is no ccache
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(cached CXX)
include({ROOT}/cmake/StagesCache.cmake)
add_library(cached OBJECT source.cpp)
target_compile_options(cached PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
target_precompile_headers(cached PRIVATE header.hpp)
"""


class Cache(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.environment = {**os.environ, "CCACHE_DIR": str(self.place / "cache"), "CCACHE_CONFIGPATH": os.devnull}
        (self.place / "CMakeLists.txt").write_text(PROJECT)

    def run_here(self, *words):
        done = subprocess.run(words, cwd=self.place, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def build(self, comment, value):
        """Builds anew, and returns how often the cache had what was asked for."""
        shutil.rmtree(self.place / "build", ignore_errors=True)
        (self.place / "header.hpp").write_text(f"#pragma once\n// {comment}\nstruct Once {{}};\n")
        (self.place / "source.cpp").write_text(f'#include "header.hpp"\n\nint value(Once) {{ return {value}; }}\n')
        time.sleep(1.1)  # ccache does not trust what is younger than the compilation
        self.run_here("ccache", "--zero-stats")
        self.run_here("cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_BUILD_TYPE=Release")
        self.run_here("cmake", "--build", "build")
        counts = dict(line.split("\t") for line in self.run_here("ccache", "--print-stats").splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])

    def test_a_comment_of_a_precompiled_header_may_change(self):
        self.assertEqual(self.build("one", 1), 0)
        self.assertEqual(self.build("another", 2), 0)
        self.assertEqual(self.build("one", 1), 2, "both the header and the source are in the cache")


if __name__ == "__main__":
    if not shutil.which("ccache"):
        print("no ccache")
        sys.exit(77)
    unittest.main()
