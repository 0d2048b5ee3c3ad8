#!/usr/bin/env bash
# Builds and tests the project without what it can do without, one thing at a time, each in build/without-PART. For after a
# change of CMake files or of what is optional; .ci/run does not run it, for each part is a build of its own.
#
#   tools/try-without.sh [PART ...]
#
# PARTs: boost, mpi, graphblas, old-graphblas (one that is too old), eigen, everything (none of these), native (-march=native), pch
# (precompiled headers: without them each source is seen to include what it uses);
# none named: all. A part passes if it builds without warnings, `stages list` says what is left out, `stages run` computes what
# is left, and the unit tests pass, with small cases. Exit code 1: a part did not pass; 2: bad usage.
set -euo pipefail
cd "$(dirname "$0")/.."
all=(boost mpi graphblas old-graphblas eigen everything native pch)
parts=("$@")
[ $# -gt 0 ] || parts=("${all[@]}")

played=$(mktemp -d)
trap 'rm -rf "$played"' EXIT
printf '#define GxB_IMPLEMENTATION_MAJOR 6\n#define GxB_IMPLEMENTATION_MINOR 1\n' > "$played/GraphBLAS.h"
: > "$played/libgraphblas.a"

without() { printf -- '-DCMAKE_DISABLE_FIND_PACKAGE_%s=ON ' "$@"; }
old_graphblas="-DGRAPHBLAS_INCLUDE_DIR=$played -DGRAPHBLAS_LIBRARY=$played/libgraphblas.a"
no_cuda='03_cuda_naive.*libboost-context-dev'
no_mpi='02_mpi.*MPI'
# describe PART: sets the options of CMake, and one regular expression a line that `stages list` must match.
describe() {
  case $1 in
    boost) options=$(without Boost) said=$no_cuda ;;
    mpi) options=$(without MPI) said=$no_mpi ;;
    graphblas) options=$(without GraphBLAS) said='vendor/graphblas.*libgraphblas-dev' ;;
    old-graphblas) options=$old_graphblas said='vendor/graphblas.* 6\.1 is too old' ;;
    eigen) options=$(without Eigen3) said='vendor/eigen.*libeigen3-dev' ;;
    everything) options="$(without Boost MPI Eigen3) $old_graphblas" said=$no_cuda$'\n'$no_mpi$'\n''vendor/eigen' ;;
    native) options=-DSTAGES_NATIVE=OFF said='' ;;
    pch) options=-DSTAGES_PCH=OFF said='' ;;
    *)
      echo "try-without: no part '$1'; the parts are ${all[*]}" >&2
      exit 2
      ;;
  esac
}

failed=()
# fails PART WHAT: shows the end of the part's log.
fails() {
  tail -n 30 "build/without-$1/log.txt" >&2
  echo "try-without: $1: $2; all of it: build/without-$1/log.txt" >&2
  failed+=("$1")
}

try() {
  local build=build/without-$1 log=build/without-$1/log.txt list line words
  mkdir -p "$build"
  read -r -a words <<< "$options"
  cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DSTAGES_WERROR=ON "${words[@]}" > "$log" 2>&1 ||
    { fails "$1" "CMake"; return; }
  mapfile -t targets < <(cmake --build "$build" --target help | sed -nE 's/^([a-z_]+_tests): phony$/\1/p')
  cmake --build "$build" -j "${STAGES_JOBS:-$(nproc)}" --target stages "${targets[@]}" >> "$log" 2>&1 ||
    { fails "$1" "the build"; return; }
  list=$("$build/bin/stages" list) || { fails "$1" "stages list"; return; }
  while read -r line; do
    grep -qE "$line" <<< "$list" || { fails "$1" "stages list does not say '$line'"; return; }
  done <<< "$said"
  if [ "$1" = native ] && grep -q -- -march=native "$build/compile_commands.json"; then
    fails "$1" "-march=native is there"
    return
  fi
  "$build/bin/stages" run --quick -m data:fem --time-budget 0.01 > "$build/run.txt" 2>> "$log" ||
    { tail -n 3 "$build/run.txt" >&2; fails "$1" "stages run"; return; }
  # Not the battery in other orders and on other devices, nor planted faults: they take long, and find nothing of what is
  # tried here.
  STAGES_BATTERY=small ctest --test-dir "$build" -L unit -E 'battery_|simt_|mutants' --output-on-failure >> "$log" 2>&1 || { fails "$1" "the unit tests"; return; }
  echo "$1: $(tail -n 1 "$build/run.txt"); $(grep 'tests passed' "$log")"
}

for part in "${parts[@]}"; do describe "$part"; done  # bad usage before anything is built
for part in "${parts[@]}"; do
  describe "$part"
  echo "without $part" >&2
  try "$part"
done
[ ${#failed[@]} -eq 0 ] || { echo "try-without: not passed: ${failed[*]}" >&2; exit 1; }
