#!/usr/bin/env bash
# The study behind steps 3 to 6 as one command: SpMV on matrices with 80 % zeros and the same number of non-zeros in each
# row, n from 64 to 1024, every step and every library call: one product (kernels launched one by one, and replayed as a CUDA
# graph), a chain of 1000 (as a graph), a stream of 1000 (one by one). A JSON file for each of the four; tools/draw_curve.py draws one.
#
#   tools/d2-study.sh [PROGRAM [DIRECTORY [STUDY ...]]]      defaults: build/gpu/bin/stages, out/d2, all of
#       single_single single_graph chain_graph stream
#
# Without a GPU the kernels run on the executor: checked, not timed; chains and streams of large n are beyond its limit, and skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
studies="single_single single_graph chain_graph stream"
case ${1:-} in -*) echo "usage: tools/d2-study.sh [PROGRAM [DIRECTORY [STUDY ...]]]" >&2; exit 2 ;; esac
program=${1:-$root/build/gpu/bin/stages}
[ -x "$program" ] || { echo "d2-study: there is no program $program; build it (tools/build.sh gpu stages) or name another" >&2; exit 2; }
out=${2:-$root/out/d2}
mkdir -p "$out"
shift $(($# < 2 ? $# : 2))
for name in "$@"; do
  [[ " $studies " == *" $name "* ]] || { echo "d2-study: there is no study '$name'; give some of $studies" >&2; exit 2; }
done
wanted=" ${*:-$studies} "

matrices=()
# Fine where rows leave the caches of older GPUs (400 to 416), and the registers of this one: 112 non-zeros at n = 560, 113 at 565.
for n in 64 128 192 256 320 384 400 407 408 416 448 512 520 528 536 544 552 560 565 568 576 640 704 768 832 896 960 1023 1024 1025; do
  matrices+=(-m "gen:fixed:n=$n,zeros=0.8")
done

study() {  # NAME OPTIONS...
  local name=$1
  [[ $wanted == *" $name "* ]] || return 0
  shift
  echo "$name: $*" >&2
  "$program" run "${matrices[@]}" --op spmv --filter '0[3-6]_cuda|vendor/cu' --time-budget "${STAGES_TIME_BUDGET:-0.05}" \
    --json "$out/d2_$name.json" "$@" > "$out/d2_$name.txt"
  "$root/tools/record.py" pack "$out/d2_$name.json"
}

study single_single --mode single --launch single
study single_graph --mode single --launch graph
study chain_graph --mode chain --products 1000 --launch graph
study stream --mode stream --products 1000
echo "written: $out/d2_*.json" >&2
