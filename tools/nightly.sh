#!/usr/bin/env bash
# What ./test.sh leaves out, and .ci/run for the most part, as it takes hours on two cores: what they keep from earlier runs once more,
# the whole battery on every device that the executor knows in three orders of threads, the battery on one to seven ranks, ten minutes of
# the reader's fuzz target, that every header compiles alone, and every source without precompiled headers.
#
#   tools/nightly.sh [PART ...]       default: tests devices ranks fuzz sources
#
# Logs are in build/nightly. Exit code 0: all passed; 1: some did not, and the last line says which.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- tests devices ranks fuzz sources
build=${STAGES_BUILD:-build}
bin=$build/cpu/bin
logs=$build/nightly
mkdir -p "$logs"
export CCACHE_BASEDIR=${PWD%%\$*} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=()

# run NAME COMMAND...: its output goes to a log; a line says how it ended.
run() {
  local name=$1 started=$SECONDS said=passed
  shift
  "$@" > "$logs/$name.log" 2>&1 || { said=FAILED; failed+=("$name"); tail -n 20 "$logs/$name.log" >&2; }
  echo "$said: $name, $((SECONDS - started)) s"
}

# shards PROGRAM FILTER: a program of GoogleTest, its cases dealt to a process for each processor.
shards() {
  local shard code=0 processes=()
  "$1" "--gtest_filter=$2" --gtest_list_tests | grep '^  ' || { echo "no case matches $2"; return 1; }
  for ((shard = 0; shard < $(nproc); ++shard)); do
    GTEST_TOTAL_SHARDS=$(nproc) GTEST_SHARD_INDEX=$shard "$1" "--gtest_filter=$2" &
    processes+=($!)
  done
  for shard in "${processes[@]}"; do wait "$shard" || code=1; done
  return $code
}

tests() { run tests ./test.sh; }

devices() {
  local device order of_simt kernels
  kernels=$(printf '*PassesTheBattery/%s_*:' 03 04 05 06 07 08)
  run build tools/build.sh cpu battery_tests cuda_mutants_tests simt_tests mpi_tests
  for device in sm_75 sm_80 sm_86 sm_90; do
    for order in forward reverse "random:$(date +%-j)"; do
      STAGES_DEVICE=$device STAGES_SCHEDULE=$order run "battery-$device-$order" shards "$bin/battery_tests" "$kernels"
    done
    STAGES_DEVICE=$device run "cuda_mutants-$device" shards "$bin/cuda_mutants_tests" '*'
    # The other tests of faults speak of what an sm_90 does.
    of_simt='Runtime.*:Language.*:Architectures.*:Faults.LaunchesBeyond*:Faults.StaticAnd*:Faults.WhatADevice*'
    [ $device != sm_90 ] || of_simt='*'
    STAGES_DEVICE=$device run "simt-$device" "$bin/simt_tests" "--gtest_filter=$of_simt"
  done
}

ranks() {
  local number
  run build tools/build.sh cpu mpi_tests
  for number in 1 2 3 4 5 6 7; do
    run "ranks-$number" mpirun --oversubscribe -n $number "$bin/mpi_tests" battery 02_
    STAGES_BATTERY=small run "ranks-gpus-$number" mpirun --oversubscribe -n $number "$bin/mpi_tests" battery 08_
  done
}

fuzz() {
  run build-fuzz tools/build.sh fuzz fuzz_targets
  mkdir -p "$build/fuzz/found"
  run fuzz "$build/fuzz/bin/matrix_market_fuzz" -max_total_time=600 -max_len=4096 -rss_limit_mb=4096 -verbosity=0 \
    -artifact_prefix="$build/fuzz/found/" "$build/fuzz/found" data/matrix_market/accept data/matrix_market/reject data/edge_lists
}

without_pch() { cmake --preset cpu -B "$build/without-pch" -DSTAGES_PCH=OFF && cmake --build "$build/without-pch"; }
sources() {
  run headers tools/check-headers.sh
  run without-pch without_pch
}

for part in "$@"; do
  case $part in
    tests | devices | ranks | fuzz | sources) "$part" ;;
    *) echo "nightly: there is no part '$part'; parts: tests devices ranks fuzz sources" >&2; exit 2 ;;
  esac
done
[ ${#failed[@]} -eq 0 ] || { echo "nightly: FAILED: ${failed[*]}; logs in $logs" >&2; exit 1; }
echo "nightly: all passed"
