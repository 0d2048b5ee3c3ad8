#!/usr/bin/env python3
"""A program that was built for another processor says so before anything of it runs.

usage: processor_tests.py PROGRAM    (tests/cli/built_for_another.cpp)
"""

import subprocess
import sys

done = subprocess.run([sys.argv[1]], capture_output=True, text=True, timeout=30, check=False)
expected = ("built_for_another: error: this program was built for a processor with FMA4, which this one has not; "
            "configure with -DSTAGES_NATIVE=OFF and build it again\n")
if (done.returncode, done.stdout, done.stderr) != (2, "", expected):
    sys.exit(f"exit code {done.returncode}, said {done.stdout!r} and {done.stderr!r}; expected 2, '' and {expected!r}")
