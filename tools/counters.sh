#!/usr/bin/env bash
# The hardware counters behind steps 3 to 8: why is one entry faster than another? For anyone with an NVIDIA GPU whose counters
# may be read, and with ncu (Nsight Compute, part of the CUDA toolkit):
#
#   tools/counters.sh [PROGRAM [DIRECTORY [OPERATION ...]]]
#
# Defaults: build/gpu/bin/stages; results/<gpu>; the OPERATIONs spmv, spmm and spgemm. Writes DIRECTORY/counters_spmv.json, counters_spmm.json and
# counters_spgemm.json, which tools/tables.py puts into the pages. Exit code 0: all cases were counted; 1: some were not, and the record says which and why.
#
# What is counted, and what is not:
# - One process for each case and entry, so whose kernels they are is known. The program is told (STAGES_PROFILE) to show one
#   product to the profiler, after prepare and a first product, and ncu looks at nothing else. All kernels of that product are added
#   up. What is no kernel, such as cudaMemset and copies, is not in the sums, nor is the time between kernels.
# - ncu runs each kernel several times, as not all counters can count at once, and one after the other, also where the program would let them
#   overlap. So the time is that of the kernels, each alone, and not what `stages run` reports.
# - Clocks are left as they are and caches are not flushed (--clock-control none --cache-control none): as in a hot timing, a kernel finds
#   in L2 what the kernel before, or itself in the pass before, has left there.
# - L2's hits and sectors are those of requests that come from the SMs. Where L2 has two halves, as on A100, H100 and H200, a row that is
#   fetched from the other half may count as a miss; what came from memory in truth is what the memory's own counter says.
#
# STAGES_COUNTERS_LIMIT=60 is the time in seconds for one case. A case that fails or takes longer is recorded as failed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:-} in -*) echo "usage: tools/counters.sh [PROGRAM [DIRECTORY [OPERATION ...]]]" >&2; exit 2 ;; esac
program=${1:-$root/build/gpu/bin/stages}
[ -x "$program" ] || { echo "counters: there is no program $program; build it (tools/build.sh gpu stages) or name another" >&2; exit 2; }
command -v ncu > /dev/null || { echo "counters: there is no ncu (Nsight Compute, part of the CUDA toolkit) on the PATH" >&2; exit 2; }
command -v nvidia-smi > /dev/null || { echo "counters: no nvidia-smi: this machine has no NVIDIA driver" >&2; exit 2; }
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
[ -n "$gpu" ] || { echo "counters: nvidia-smi finds no GPU" >&2; exit 2; }
out=${2:-$root/results/$(tr 'A-Z ' 'a-z-' <<< "$gpu")}
. "$root/tools/gpu-sources.sh"
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- spmv spmm spgemm
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# begin OPERATION: a new record, with where it comes from, and the metrics that this ncu has for this GPU.
begin() {
  record=$out/counters_$1.json
  metrics=$(ncu --query-metrics 2> /dev/null | python3 "$root/tools/counters.py" begin "$record" "operation=$1" "gpu=$gpu" \
    "driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
    "ncu=$(ncu --version | grep -i version | tail -n 1)" \
    "source_digest=$(cmake -DROOT="$root" -P "$root/cmake/BuildInfo.cmake" 2>&1)" \
    "gpu_source_digest=${gpu_digests[$1]}" \
    "date=$(date -u +%FT%TZ)" "command=tools/counters.sh $1") || exit 2
}

# count OPTIONS MATRIX ENTRY WORD ...: one product of the entry under ncu; the words go to stages run.
count() {
  local options=$1 matrix=$2 entry=$3 code=0
  shift 3
  rm -rf "$work/case"
  mkdir "$work/case"
  STAGES_PROFILE=1 timeout -k 5 "${STAGES_COUNTERS_LIMIT:-60}" ncu --profile-from-start off --clock-control none --cache-control none \
    --csv --page raw --print-units base --metrics "$metrics" --log-file "$work/case/ncu.csv" \
    "$program" run -m "$matrix" "$@" --filter "^$entry\$" --check once --time-budget 0.001 --max-work 1e13 \
    --json "$work/case/run.json" > "$work/case/said.txt" 2>&1 || code=$?
  python3 "$root/tools/counters.py" add "$record" "$matrix" "$options" "$entry" "$code" "$work/case" || exit 2
}

# entries REGEX: the SpMV entries of the program whose names REGEX finds, in the order of the course.
entries() {
  "$program" list --json | python3 -c 'import json, re, sys
for entry in json.load(sys.stdin)["entries"]:
    if entry["operation"] == "spmv" and re.search(sys.argv[1], entry["name"]):
        print(entry["name"])' "$1"
}

# Four questions. What does a row length that is a multiple of 32, of 16 or of nothing cost a thread a row? What does each step of the
# ladder change? Where does a row leave the registers (112 non-zeros at n = 560, 113 at n = 565)? What do long rows cost?
spmv() {
  local n entry matrix
  for n in 407 416 1023 1025; do
    for entry in $(entries '^03_'); do count "" "gen:fixed:n=$n,zeros=0.8" "$entry" --op spmv; done
    count "" "gen:fixed:n=$n,zeros=0.8" 05_cuda_csr/thread_per_row --op spmv
  done
  for entry in $(entries '^0[3456]_|^vendor/cu'); do count "" gen:fixed:n=1024,zeros=0.8 "$entry" --op spmv; done
  for n in 448 512 528 544 560 565 576 640 768; do count "" "gen:fixed:n=$n,zeros=0.8" 06_cuda_register/row_per_thread --op spmv; done
  for entry in $(entries '^05_|^vendor/cusparse'); do count "" gen:twin:arxiv "$entry" --op spmv; done
  # The matrix stays in registers only between the products of a stream: there the step at 113 non-zeros shows.
  for n in 512 560 565 576; do
    count "stream of 1000" "gen:fixed:n=$n,zeros=0.8" 06_cuda_register/row_per_thread --op spmv --mode stream --products 1000
  done
  for n in 960 1024; do
    for entry in $(entries '^06_cuda_register/(?!chain)') vendor/cublas_stream_gemm; do
      count "stream of 1000" "gen:fixed:n=$n,zeros=0.8" "$entry" --op spmv --mode stream --products 1000
    done
  done
}

spmm() {
  local matrix entry
  local -a ours=(07_spmm/{thread_per_row,warp_per_row,split_rows,merged_short_rows,equal_shares,loads_ahead,vector_lanes,strips,balanced})
  for matrix in gen:twin:arxiv gen:twin:am gen:twin:ppa; do
    for entry in "${ours[@]}" vendor/cusparse_spmm_alg3; do
      count "N = 32" "$matrix" "$entry" --op spmm --n-cols 32
    done
  done
  for entry in "${ours[@]}" vendor/cusparse_spmm_alg2 vendor/cusparse_spmm_alg3; do
    count "N = 256" gen:twin:arxiv "$entry" --op spmm --n-cols 256
  done
}

spgemm() {
  local matrix entry
  for matrix in gen:rmat:scale=17,edge_factor=8,a=0.57 gen:stencil:points=27,nx=60 gen:rmat:n=1062400,edge_factor=8,a=0.25; do
    for entry in 08_spgemm_multigpu/hash_warp_per_row 08_spgemm_multigpu/binned; do
      count "" "$matrix" "$entry" --op spgemm
    done
  done
}

failed=0
for operation in "$@"; do
  case $operation in
    spmv | spmm | spgemm) ;;
    *) echo "counters: there is no operation '$operation'; give spmv, spmm or spgemm" >&2; exit 2 ;;
  esac
  begin "$operation"
  "$operation"
  python3 "$root/tools/counters.py" end "$record" || failed=1
  echo "written: $record" >&2
done
[ $failed = 0 ] || echo "counters: NOT all cases were counted" >&2
exit $failed
