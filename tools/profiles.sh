#!/usr/bin/env bash
# Runs all tests of kernels on every device that the executor knows: the whole battery, the mutants, and the executor's own tests.
#
#   tools/profiles.sh [DEVICE ...]       default: sm_75 sm_80 sm_86 sm_90
#
# ctest has the small battery of each instead (tests battery_sm_75, ...): this takes some ten minutes a device on two idle cores.
# STAGES_BATTERY=small makes it shorter. Builds the preset cpu; logs are in build/profiles. Exit code 0: all passed; 1: some did
# not, and the last lines say which.
set -uo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -*) echo "usage: tools/profiles.sh [DEVICE ...]" >&2; exit 2 ;; esac
[ $# -gt 0 ] || set -- sm_75 sm_80 sm_86 sm_90
tools/build.sh cpu battery_tests cuda_mutants_tests simt_tests || exit 1
logs=build/profiles
mkdir -p "$logs"
failed=()

# run DEVICE PROGRAM FILTER: as many processes as there are processors share the tests.
run() {
  local device=$1 program=$2 filter=$3 shards shard code=0 processes=() started=$SECONDS
  shards=$(nproc)
  for ((shard = 0; shard < shards; ++shard)); do
    STAGES_DEVICE=$device GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
      "${STAGES_BUILD:-build}/cpu/bin/$program" --gtest_filter="$filter" > "$logs/$device.$program.$shard.log" 2>&1 &
    processes+=($!)
  done
  for shard in "${!processes[@]}"; do
    wait "${processes[shard]}" || code=1
  done
  if [ $code -ne 0 ]; then
    grep -hE '^\[  FAILED.* ms\)|STAGES_DEVICE is' "$logs/$device.$program."*.log | sort -u >&2
    failed+=("$device/$program")
  fi
  printf '%s %s: %s tests passed, %s skipped, %s s\n' "$device" "$program" \
    "$(grep -hc '^\[       OK' "$logs/$device.$program."*.log | awk '{ sum += $1 } END { print sum }')" \
    "$(grep -hc '^\[  SKIPPED \].* ms)' "$logs/$device.$program."*.log | awk '{ sum += $1 } END { print sum }')" $((SECONDS - started))
}

for device in "$@"; do
  run "$device" battery_tests '*PassesTheBattery*_cuda_*:*PassesTheBattery/07_*:*PassesTheBattery/08_*'
  run "$device" cuda_mutants_tests '*'
  # The other tests of faults speak of what an sm_90 does.
  tests='Runtime.*:Language.*:Architectures.*:Faults.LaunchesBeyond*:Faults.StaticAnd*:Faults.WhatADevice*'
  [ "$device" != sm_90 ] || tests='*'
  run "$device" simt_tests "$tests"
done
[ ${#failed[@]} -eq 0 ] || { echo "profiles: FAILED: ${failed[*]}; logs in $logs" >&2; exit 1; }
echo "profiles: all passed"
