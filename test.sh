#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: first those of one process under AddressSanitizer and
# UndefinedBehaviorSanitizer, with small cases, then all. Arguments go to ctest, and leave the sanitizers out:
# ./test.sh -R cli
set -euo pipefail
cd "$(dirname "$0")"
tools/install-deps.sh test
tools/build.sh cpu
if [ $# -eq 0 ]; then
  tools/build.sh asan
  # Not the tests that start programs: those of MPI meet the leaks of the MPI library itself. And no large files: ASan
  # takes its time.
  env -u STAGES_DATA STAGES_BATTERY=small ctest --preset asan -LE 'mpi|cli'
fi
# One test at a time: some of them use all processors themselves, and some measure.
ctest --preset cpu "$@"
