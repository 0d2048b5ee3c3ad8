#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. Arguments go to ctest: ./test.sh -R cli
set -euo pipefail
cd "$(dirname "$0")"
tools/install-deps.sh test
tools/build.sh cpu
# One test at a time: some of them use all processors themselves, and some measure.
ctest --preset cpu "$@"
