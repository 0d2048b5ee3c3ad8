#!/usr/bin/env bash
# Measures step 1 on this machine, one thread, beside Eigen and GraphBLAS.
#
#   tools/measure-cpu.sh [--name NAME] [--only PART,...] [MATRIX.mtx[.gz] ...]
#
# Each MATRIX is squared (a rectangular one: the smaller of A A^T and A^T A), multiplied by a vector and by 32 of them;
# beside them the pairs of the course project and a hypersparse matrix. NAME is the directory under results/; without it
# the processor's name. PART is the middle of a file's name below: --only plain takes a minute, and needs no MATRIX.
# Nothing else should run meanwhile. What is written:
#
#   cpu-pair.json       SpGEMM: the course project's pair, data:d1, all methods
#   cpu-uniform.json    SpGEMM: its counts at random places, data:d1_uniform; dot products take a minute there, so without
#   cpu-sparse.json     SpGEMM: 10 million rows, 100 thousand non-zeros
#   cpu-square.json     SpGEMM: every MATRIX
#   cpu-vector.json     SpMV: every MATRIX
#   cpu-dense.json      SpMM with 32 columns: every MATRIX
#   cpu-plain.json      SpMV and SpMM with 32 columns: built-in matrices, among them data:d2, which the dense forms take, too
#   cpu-O0.json         the part compiler: the dense loop 1000 times, without optimisation; in cpu-O3.json as it is
#
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
name=$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-' | tr -s '-')
known="pair uniform sparse vector dense square plain compiler"
wanted=$known
while [ "${1:-}" = --name ] || [ "${1:-}" = --only ]; do
  [ $# -ge 2 ] || { echo "measure-cpu: $1 needs a word" >&2; exit 2; }
  if [ "$1" = --name ]; then name=$2; else wanted=${2//,/ }; fi
  shift 2
done
for part in $wanted; do
  [[ " $known " == *" $part "* ]] || { echo "measure-cpu: there is no part '$part'; give some of ${known// /,}" >&2; exit 2; }
done
case ${1:-} in -*) echo "usage: tools/measure-cpu.sh [--name NAME] [--only PART,...] [MATRIX.mtx[.gz] ...]" >&2; exit 2 ;; esac
wants() { [[ " $wanted " == *" $1 "* ]]; }
program=$root/build/cpu/bin/stages
[ -x "$program" ] || "$root/tools/build.sh" cpu stages
out=$root/results/$name
mkdir -p "$out"
matrices=()
directory=.
for file in "$@"; do
  directory=$(dirname "$file")
  matrices+=(-m "$(basename "$file")")
done

measure() {  # PART OPTIONS...
  local file=$out/cpu-$1.json
  wants "$1" || return 0
  shift
  echo "stages run $*" >&2
  # The names of the files are enough in the results: the directory belongs to this machine.
  (cd "$directory" && "$program" run "$@" --type f64 --stage 01,vendor --time-budget "${STAGES_TIME_BUDGET:-0.5}" --json "$file" > /dev/null)
  "$root/tools/record.py" pack "$file"
}

measure pair -m data:d1 --op spgemm --max-work 2e10
measure uniform -m data:d1_uniform --op spgemm
measure sparse -m gen:hypersparse:n=1e7,nnz=1e5 --op spgemm
if [ ${#matrices[@]} -gt 0 ]; then
  measure vector "${matrices[@]}" --op spmv --filter 'csr|vendor'
  measure dense "${matrices[@]}" --op spmm --n-cols 32
  measure square "${matrices[@]}" --op spgemm --filter 'gustavson|vendor'
fi
measure plain -m data:d2 -m data:road -m data:fem -m data:web --op spmv,spmm --n-cols 32
if wants compiler; then
  "$root/tools/build.sh" cpu 01_cpu_serial 01_cpu_serial_O0
  for level in O0 O3; do
    program=01_cpu_serial_$level file=$out/cpu-$level.json
    "$root/build/cpu/bin/${program%_O3}" run -m data:d2 --op spmv --filter dense_spmv_plain --mode stream --products 1000 \
      --time-budget "${STAGES_TIME_BUDGET:-5}" --json "$file" > /dev/null
    "$root/tools/record.py" pack "$file"
  done
fi
echo "written: $out/cpu-*.json" >&2
