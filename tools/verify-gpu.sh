#!/usr/bin/env bash
# Verifies this project on a real GPU and records what it measured. For anyone with an NVIDIA GPU, nvcc and the packages
# of tools/install-deps.sh:
#
#   tools/verify-gpu.sh [--only STEP,...] [MATRIX ...]
#
# Any GPU of compute capability 7.5 or later will do. What is too large for its memory, or needs a later one (clusters), is skipped
# with its reason. Builds the gpu preset for the GPU of this machine, and then does these steps, or those of them that are named, or
# parts of one, as in --only sanitizer:memcheck,sanitizer:racecheck,d2:stream:
#
#   tests       all tests on the GPU
#   several     the tests of several GPUs, which two or more processes share if there are fewer
#   sanitizer   every GPU entry on small cases under the four tools of compute-sanitizer: memcheck, racecheck, initcheck, synccheck
#   d2          the D2 study (its four parts: tools/d2-study.sh), and D1's pair into a dense C
#   spmv        SpMV of steps 3 to 6 on generated matrices and on the MATRIX files given
#   spgemm      SpGEMM on generated matrices and on the MATRIX files; cuSPARSE as it allocates, and with a pool of memory
#   multi       where there are several GPUs: SpGEMM on one of them against several, on generated matrices
#   shares      SpGEMM shared out to 2, 4 and 8 processes, on matrices for eight GPUs; where there are fewer, processes take turns, and
#               only the time that each has its GPU to itself is told. This one is left out unless it is named
#   shares_d4   the course report's own cases: the same for 1, 2, 4, 6 and 8 processes, its distribution and its kernels beside ours, and
#               cuSPARSE on one GPU, to records of their own. Left out unless it is named
#   held_out    SpGEMM on the reported matrices of data/matrices.tsv, on which no rule was fitted: the generated ones, and the files that
#               are in the directory STAGES_FILES. Left out unless it is named
#   spmm_held_out  the same of SpMM, for 16, 32, 128 and 256 columns; spmm_held_out_between for 8, 20, 48, 64 and 100. Both are left out
#               unless they are named
#   spmv_held_out  the same of SpMV. Left out unless it is named
#   spmm        SpMM on the twins of step 7, for 32, 128 and 256 columns. Most of the time goes into making the matrices. Left out unless
#               it is named
#   spmm_sweep  the kernels of the report "D3" with other values of its parameters, on two twins. Left out unless it is named
#   ladders     the rungs of steps 3 to 8 on three matrices each (data/rungs.tsv), for the tables of rungs in their READMEs: one to two
#               minutes. This one is left out unless it is named
#   grade       the two exercises of step 5 graded, with and without their solutions, and six attacks of a student's file: five minutes,
#               most of them nvcc's. Left out unless it is named
#   counters    what ncu (Nsight Compute) counts of each operation on a few matrices (tools/counters.sh). Left out unless it is named
#
# STAGES_TYPE=f64: spmv, spmv_held_out, spgemm, held_out, spmm_held_out and spmm_held_out_between in double precision, to records
# of their own (spmv_f64.json, ...).
#
# Everything is written to results/<gpu>/ as JSON; each file holds the digest of the sources, the command and the machine, and
# verify.json (with several GPUs: verify-<how many>-gpus.json) says which steps were done, when, of which sources, and how they
# went: those of this run, and of earlier ones what this run does not do again, as long as the GPU sources that it depends on
# are the same (tools/gpu-sources.sh). Exit code 0: this run was all green; 1: something was not, and the last lines say what.
set -uo pipefail
cd "$(dirname "$0")/.."
known="tests several sanitizer d2 spmv spmv_held_out spgemm multi shares shares_d4 held_out spmm_held_out spmm_held_out_between spmm spmm_sweep ladders grade counters"
wanted="tests several sanitizer d2 spmv spgemm multi"
if [ "${1:-}" = --only ]; then
  [ $# -ge 2 ] || { echo "verify-gpu: --only needs steps: ${known// /,}" >&2; exit 2; }
  wanted=${2//,/ }
  shift 2
fi
for name in $wanted; do
  case $name in d2:* | sanitizer:*) name=${name%%:*} ;; esac
  [[ " $known " == *" $name "* ]] || { echo "verify-gpu: there is no step '$name'; give some of ${known// /,}" >&2; exit 2; }
done
case ${1:-} in -*) echo "usage: tools/verify-gpu.sh [--only STEP,...] [MATRIX ...]" >&2; exit 2 ;; esac
wants() { [[ " $wanted " =~ \ $1[:\ ] ]]; }
# parts STEP PART ...: those that --only names as STEP:PART; none named: all.
parts() {
  local named
  named=$(tr ' ' '\n' <<< "$wanted" | sed -n "s/^$1://p")
  echo "${named:-${*:2}}"
}
jobs=$(nproc)
type=${STAGES_TYPE:-f32}
case $type in f32) of_type= ;; f64) of_type=_f64 ;; *) echo "verify-gpu: STAGES_TYPE is '$type'; give f32 or f64" >&2; exit 2 ;; esac

command -v nvidia-smi > /dev/null || { echo "verify-gpu: no nvidia-smi: this machine has no NVIDIA driver" >&2; exit 2; }
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')
[ -n "$gpu" ] || { echo "verify-gpu: nvidia-smi finds no GPU" >&2; exit 2; }
out=results/$gpu
# This machine's GPUs, or those that CUDA may see of them.
mapfile -t seen < <(if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then tr ',' '\n' <<< "$CUDA_VISIBLE_DEVICES"; else seq 0 $(($(nvidia-smi -L | grep -c '^GPU') - 1)); fi)
gpus=${#seen[@]}
verified=$out/verify.json
[ "$gpus" -eq 1 ] || verified=$out/verify-$gpus-gpus.json
logs=build/verify-logs
mkdir -p "$out" "$logs"
failures=()
skipped=()
summary=()
digest=$(cmake -DROOT="$PWD" -P cmake/BuildInfo.cmake 2>&1)
[[ $digest =~ ^[0-9a-f]{64}$ ]] || { echo "verify-gpu: cmake does not tell the digest of the sources: $digest" >&2; exit 2; }
. tools/gpu-sources.sh
. tools/matrices.sh
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)

# What earlier runs recorded of the sources as they are now, a step a line.
earlier=()
[ ! -e "$verified" ] || mapfile -t earlier < <(steps_of "$verified" | sed -n 's/^now //p')

# step NAME COMMAND...: runs it with its output in a log, makes a record of the file that it writes by --json, and records how it went. A program that ends with 77 has skipped all
# that it was to do, such as matrices that this GPU has no memory for: that is recorded as neither passed nor failed.
step() {
  local name=$1 started=$SECONDS passed=true code=0 i json
  shift
  echo "== $name" >&2
  "$@" > "$logs/$name.log" 2>&1 || code=$?
  json=$(printf '%s\n' "$@" | sed -n '/^--json$/{n;p}')
  [ ! -e "$json" ] || tools/record.py pack "$json" >> "$logs/$name.log" 2>&1 || code=2
  if [ $code -eq 77 ]; then
    passed=null
    skipped+=("$name")
    echo "skipped: all that it was to do (the reasons are in $logs/$name.log)" >&2
  elif [ $code -ne 0 ]; then
    passed=false
    failures+=("$name")
    tail -n 15 "$logs/$name.log" >&2
  fi
  for i in "${!earlier[@]}"; do
    case ${earlier[i]} in "{\"name\": \"$name\","*) unset "earlier[i]" ;; esac
  done
  summary+=("{\"name\": \"$name\", \"passed\": $passed, \"seconds\": $((SECONDS - started)), \"date\": \"$(date -u +%FT%TZ)\", \"driver\": \"$driver\", \"source_digest\": \"$digest\", \"gpu_source_digest\": \"${gpu_digests[$(kind_of "$name")]}\"}")
  record
}

# measure NAME SECONDS OPTION ...: a step that records what `stages run` measures, in three processes, each entry for so many seconds;
# measure_ranks NAME SECONDS NUMBERS OPTION ... the same on these numbers of ranks, in a file with dashes in its name.
measure() { step "$1" tools/processes.sh "${STAGES_PROCESSES:-3}" build/gpu/bin/stages run "${@:3}" --time-budget "${STAGES_TIME_BUDGET:-$2}" --json "$out/$1.json"; }
measure_ranks() { step "$1" tools/ranks.sh "${@:3}" --check once --time-budget "${STAGES_TIME_BUDGET:-$2}" --json "$out/${1//_/-}.json"; }

# record [COMPLETE]: what is verified so far; "wanted" and "complete" are of this run.
record() {
  local IFS=, steps=("${earlier[@]}" "${summary[@]}")
  printf '{"schema_version": 1, "gpu": "%s", "driver": "%s", "source_digest": "%s", "gpu_source_digest": "%s", "date": "%s", "wanted": "%s", "complete": %s, "steps": [%s]}\n' \
    "$gpu" "$driver" "$digest" "${gpu_digests[all]}" "$(date -u +%FT%TZ)" "$wanted" "${1:-false}" "${steps[*]}" > "$verified"
}

generator="Unix Makefiles"
command -v ninja > /dev/null && generator=Ninja
step configure cmake -S . -B build/gpu -G "$generator" -DCMAKE_BUILD_TYPE=Release -DSTAGES_BACKEND=gpu \
  -DCMAKE_CUDA_ARCHITECTURES=native
step build cmake --build build/gpu -j "$jobs"
[ ${#failures[@]} -eq 0 ] || { echo "verify-gpu: the build failed; see $logs" >&2; exit 1; }

# Not the tests that start programs of their own: nothing in them depends on the GPU, and each start costs seconds.
side_by_side=$((jobs > 4 ? jobs / 2 : 1))
wants tests && step tests ctest --test-dir build/gpu --output-on-failure -LE 'mpi|cli' -j "$side_by_side"

# Several processes with a GPU each. Where there are fewer GPUs than processes, they are shared.
if wants several && [ -x build/gpu/bin/mpi_tests ]; then
  step tests_of_several_gpus ctest --test-dir build/gpu --output-on-failure \
    -R '^mpi_(battery_gpus|gpus|peers_on_nodes|clocks|failures_gpus)'
  for destination in host distributed one-gpu; do
    step "two_processes_$destination" build/gpu/bin/stages run -m gen:rmat:scale=14,edge_factor=8 --op spgemm --filter '08_.*/multi_' \
      --ranks 2 --destination "$destination" --time-budget 0.03
  done
fi

# sanitize LOGS TOOL PROGRAM TESTS: those tests of PROGRAM on small cases under one tool, dealt to as many processes as there are
# processors (or tests: a process without a test never calls CUDA, which compute-sanitizer takes for an error), and those to the GPUs.
sanitize() {
  local log=$1 tool=$2 program=$3 tests=$4 shard shards code failed=0 processes=() without=(--kernel-name-exclude kns=cub)
  # Only what it sees being written counts for initcheck as written: it must see CUB's kernels too.
  [ "$tool" = initcheck ] && without=()
  rm -f "$logs/$log".*.log
  shards=$("build/gpu/bin/$program" --gtest_filter="$tests" --gtest_list_tests | grep -c '^  ')
  [ "$shards" -gt 0 ] || { echo "no test of $program is called $tests"; return 1; }
  shards=$((shards < jobs ? shards : jobs))
  for ((shard = 0; shard < shards; ++shard)); do
    CUDA_VISIBLE_DEVICES=${seen[shard % gpus]} GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard STAGES_BATTERY=small timeout 1800 \
      compute-sanitizer --tool "$tool" --error-exitcode 9 "${without[@]}" \
      "build/gpu/bin/$program" --gtest_filter="$tests" > "$logs/$log.$shard.log" 2>&1 &
    processes+=($!)
  done
  for shard in "${!processes[@]}"; do
    code=0
    wait "${processes[shard]}" || code=$?
    [ $code -eq 0 ] || { failed=1; echo "process $shard: exit code $code"; }
    cat "$logs/$log.$shard.log"
  done
  grep -qh '^\[       OK \]' "$logs/$log".*.log || { failed=1; echo "no test ran"; }
  return $failed
}

# The one entry that racecheck is not asked about is chain_cluster. Its blocks hand on y by atomic stores into each other's shared memory, and
# poll it with atomic loads. racecheck (of CUDA 13.0) knows barriers but not this: it reports every poll that
# precedes a store as a race, 10 errors with 100,000 hazards each for 32 rows and two products, and does not end within
# minutes on larger ones. The other three tools see this entry, and so do the executor's schedules. hash_warp_per_row and rows_of_b, which
# clear 64 KB of shared memory for each row, take racecheck more than three minutes; they are looked at with small tables.
entries='*PassesTheBattery*_cuda_*:*PassesTheBattery/07_*:*PassesTheBattery/08_*'

if wants sanitizer; then
  command -v compute-sanitizer > /dev/null || { echo "verify-gpu: no compute-sanitizer (part of the CUDA toolkit)" >&2; exit 2; }
  for tool in $(parts sanitizer memcheck racecheck initcheck synccheck); do
    case $tool in
      racecheck)
        step racecheck_without_chain_cluster sanitize racecheck racecheck battery_tests "$entries:-*chain_cluster*:*hash_warp_per_row*:*rows_of_b*"
        step racecheck_small_tables sanitize racecheck_small_tables racecheck cuda_mutants_tests HashParts.OneTableForAllRowsOnSmallMatrices ;;
      memcheck | initcheck | synccheck) step "$tool" sanitize "$tool" "$tool" battery_tests "$entries" ;;
      *) echo "verify-gpu: there is no sanitizer:$tool; give some of memcheck racecheck initcheck synccheck" >&2; exit 2 ;;
    esac
  done
fi

if wants d2; then
  for study in $(parts d2 single_single single_graph chain_graph stream); do
    step "d2_$study" env STAGES_TIME_BUDGET="${STAGES_TIME_BUDGET:-0.05}" tools/d2-study.sh build/gpu/bin/stages "$out" "$study"
  done
  rm -f "$out"/*.txt
  # And the course report's pair into a dense C, which takes 6.9 G steps.
  measure d1_dense_output 0.5 -m data:d1 --op spgemm --filter '03_cuda|vendor/cusparse_spgemm' --max-work 1e10
fi

# The limit of steps leaves out dense forms where they take long to prepare; n = 1024 is for them.
if wants spmv; then
  matrices=(-m gen:fixed:n=1024,zeros=0.8 -m gen:fixed:n=16384,zeros=0.8)
  for twin in arxiv youtube am reddit; do matrices+=(-m "gen:twin:$twin"); done
  for file in "$@"; do matrices+=(-m "$file"); done
  measure "spmv$of_type" 0.1 "${matrices[@]}" --op spmv --filter '0[3456]_cuda|vendor/cusparse' --max-work 2e8 --type "$type"
fi

# SpGEMM, C = A * A, and the course pair.
if wants spgemm; then
  products=(-m data:d1)
  specs=(rmat:n=1062400,edge_factor=8,a=0.25 rmat:scale=17,edge_factor=8,a=0.57 rmat:scale=18,edge_factor=4,a=0.45
    rmat:n=1138499,edges=3e6,a=0.5 hypersparse:n=1e6,nnz=1e6 stencil:points=5,nx=1000 stencil:points=27,nx=60
    stencil:points=27,nx=100 banded:n=2e5,half_bandwidth=20 fem:nx=30 uniform:n=8191,nnz=784379)
  for spec in "${specs[@]}"; do products+=(-m "gen:$spec"); done
  for file in "$@"; do products+=(-m "$file"); done
  # The entries were checked in full by the tests; of these large results, what the timed runs leave is checked. And an entry may be
  # out of its depth (hash_warp_per_row is, on skewed matrices): one run of more than two seconds says so.
  measure "spgemm$of_type" 0.1 "${products[@]}" --op spgemm --filter '08_.*/(hash|binned|structure)|vendor/cusparse_spgemm' \
    --type "$type" --check once --max-seconds 2
fi

export STAGES_PROGRAM=build/gpu/bin/stages  # for tools/ranks.sh
# One GPU against several, a process each, with C where it was made, on the host, and on one GPU.
if wants multi && [ "$gpus" -gt 1 ] && [ -x build/gpu/bin/mpi_tests ]; then
  ranks=$(printf '%s\n' 1 2 4 8 "$gpus" | sort -nu | awk -v most="$gpus" '$1 <= most' | paste -sd,)
  several=(-m gen:rmat:n=1062400,edge_factor=8,a=0.25 -m gen:rmat:scale=17,edge_factor=8,a=0.57
    -m gen:stencil:points=27,nx=60 -m gen:banded:n=2e5,half_bandwidth=20)
  for destination in distributed host one-gpu; do
    measure_ranks "spgemm_multi_$destination" 0.1 "$ranks" "${several[@]}" --op spgemm --filter '08_.*/(binned|multi_)' \
      --destination "$destination" --max-seconds 2
  done
fi

if wants shares && [ -x build/gpu/bin/mpi_tests ]; then
  measure_ranks spgemm_shares 0.1 2,4,8 -m gen:uniform:n=8.5e6,per_row=8 -m gen:stencil:points=27,nx=160 -m gen:uniform:n=32768,per_row=128 \
    -m gen:rmat:scale=20,edge_factor=16,a=0.57 --op spgemm --filter '08_.*/(binned|multi_blocks)' --destination distributed --max-work 1e11
fi

# D4's own case, n = 1,062,400, and one of the kind of its third: rows of 12,900 results. Of the three that divide work in another way or
# multiply by other kernels, each with its preparation; and what the library takes on one GPU.
if wants shares_d4 && [ -x build/gpu/bin/mpi_tests ]; then
  measure_ranks spgemm_shares_d4 0.1 1,2,4,6,8 -m gen:rmat:n=1062400,edge_factor=8,a=0.25 -m gen:uniform:n=32768,per_row=128 \
    --op spgemm --filter '08_.*/(binned|multi_)|vendor/cusparse_spgemm' --destination distributed \
    --max-work 1e11 --max-seconds 2
fi

if wants spmv_held_out; then
  listed spmv reported
  measure "spmv_held_out$of_type" 0.05 "${listed[@]}" --op spmv --filter "${forms_of[spmv]}|vendor/cusparse" \
    --type "$type" --check once
fi

if wants held_out; then
  listed spgemm reported
  measure "spgemm_held_out$of_type" 0.05 "${listed[@]}" --op spgemm --filter '08_.*/binned|vendor/cusparse_spgemm' \
    --type "$type" --check once --max-seconds 2
fi

# spmm_held_out NAME COLUMNS: does what is wanted of that name.
spmm_held_out() {
  wants "$1" || return 0
  listed spmm reported
  measure "$1$of_type" 0.03 "${listed[@]}" --op spmm --n-cols "$2" --filter "${forms_of[spmm]}|vendor/cusparse_spmm" \
    --type "$type" --check once --max-work 1e13 --max-seconds 2
}
spmm_held_out spmm_held_out 16,32,128,256
spmm_held_out spmm_held_out_between 8,20,48,64,100

# As the smaller ones of these were checked in full by the tests, what the timed runs leave is checked. thread_per_row takes seconds where
# a row is long.
if wants spmm; then
  twins=()
  for twin in arxiv collab ddi am youtube yelp wikikg2 ppa protein citation reddit products amazon; do twins+=(-m "gen:twin:$twin"); done
  measure spmm 0.1 "${twins[@]}" --op spmm --n-cols 32,128,256 --filter '07_|vendor/cusparse_spmm' --max-work 1e13 --max-seconds 2 --check once
fi
if wants spmm_sweep; then
  measure spmm_sweep 0.1 -m gen:twin:am -m gen:twin:arxiv --op spmm --n-cols 32,256 --max-work 1e13 --check once \
    --filter '07_spmm/(thread_per_row|warp_per_row|split_rows|merged_short_rows|equal_shares)$|vendor/cusparse_spmm' \
    --set 07_spmm/split_rows:chunk=32,64,128,256,512,1024,4096 \
    --set 07_spmm/merged_short_rows:rows=1,2,4,8,16,32 --set 07_spmm/merged_short_rows:longest=1,2,3,4,8,16,32 \
    --set 07_spmm/equal_shares:share=32,64,128,256,512
fi

# The rungs of each step, on the three matrices of data/rungs.tsv. First forms may be slow on skewed matrices, or refuse them.
if wants ladders; then
  while IFS=$'\t' read -r step arguments; do
    read -ra arguments <<< "$arguments"
    measure "ladder_${step%%_*}" 0.05 "${arguments[@]}" --check once --max-seconds 2
  done < <(grep -E '^0[3-8][a-z_]*\s-m' data/rungs.tsv)
fi

# The grader is tested on the executor by `ctest -R '^(grade|attacks)$'`; here is what differs on a GPU: nvcc, and processes that use the GPU.
# What skips a test there has not looked.
graded() {
  local said code=0
  said=$(python3 tests/grade/attacks_tests.py --program build/gpu/bin/stages --root . -v OnAGpu 2>&1) || code=$?
  echo "$said"
  [ $code -eq 0 ] && ! grep -q skipped <<< "$said"
}
if wants grade; then
  step grade_build cmake --build build/gpu -j "$jobs" --target graded_misbehaving
  step grade graded
fi

# Why the one is faster than the other. Fails, with the reason in its log, where there is no ncu or its counters may not be read.
wants counters && step counters tools/counters.sh build/gpu/bin/stages "$out"

record true
failed=$(printf '%s\n' "${earlier[@]}" | grep '"passed": false' | cut -d '"' -f 4 | paste -sd ' ')
[ -z "$failed" ] || echo "verify-gpu: an earlier run was not green, and nobody has done these steps again: $failed" >&2
if [ ${#failures[@]} -gt 0 ]; then
  echo "verify-gpu: NOT green: ${failures[*]}; logs in $logs" >&2
  exit 1
fi
[ ${#skipped[@]} -eq 0 ] || echo "verify-gpu: skipped, as nothing of it can run on this GPU: ${skipped[*]}" >&2
echo "verify-gpu: all green; records in $out" >&2
