#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: first those of one process under AddressSanitizer and
# UndefinedBehaviorSanitizer, with small cases, then all. Arguments go to ctest, and leave the sanitizers out:
# ./test.sh -R cli
set -euo pipefail
cd "$(dirname "$0")"
part() { echo "== $*, after $SECONDS s" >&2; }
build=${STAGES_BUILD:-build}
part "packages"
tools/install-deps.sh test
part "build"
tools/build.sh cpu
if [ $# -eq 0 ]; then
  part "build with sanitizers"
  tools/build.sh asan unit_tests
  part "tests of one process, with sanitizers"
  # Not the tests that start programs: those of MPI meet the leaks of the MPI library itself. And no large files: ASan
  # takes its time.
  env -u STAGES_DATA STAGES_BATTERY=small ctest --test-dir "$build/asan" --output-on-failure --no-tests=error -L unit -j "$(nproc)"
fi
# Side by side, but for those that measure.
part "tests"
ctest --test-dir "$build/cpu" --output-on-failure -j "$(nproc)" "$@"
