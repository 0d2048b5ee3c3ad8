#!/usr/bin/env bash
# Measures step 2 on this machine: how SpGEMM, SpMM and SpMV scale over processes, and the memory bandwidth that they share.
#
#   tools/measure-mpi.sh MATRIX.mtx[.gz] [NAME [PART ...]]
#
# MATRIX is multiplied by itself, beside the pair of the course project (data:d1). NAME is the directory under results/;
# without it the processor's name. PARTs are those of machine, rungs, d1, matrix, distributed, chain, vector and columns that are wanted;
# without them all. Ranks are 1, 2, 4, 8, 16 and the number of cores, as far as there are processors.
# Nothing else should run meanwhile. What is written:
#
#   mpi-machine.txt           processors, threads per core, memory nodes, and what the processors are worth together
#   mpi-rungs.json            every entry for SpGEMM on the pair of the course project and on two small matrices
#   mpi-d1.json               the pair of the course project, C on rank 0; scatter_gather included
#   mpi-matrix.json           MATRIX squared, C on rank 0
#   mpi-distributed.json      both, C left distributed
#   mpi-chain.json            chains of four products, C on rank 0 and left distributed
#   mpi-vector.json           MATRIX and a 27-point mesh times a vector and times 32
#   mpi-columns-*.json        bringing B into columns, of the pair of the course project and of a larger B
#
# Each file's context holds, for each number of ranks, the bandwidth of all of them copying at once
# ("ranks=N: copy_bandwidth_bytes_per_second"), the cores and the threads per core.
#
set -euo pipefail
export LC_ALL=C  # numbers with a point
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: tools/measure-mpi.sh MATRIX.mtx[.gz] [NAME [PART ...]]" >&2; exit 2; }
matrix=$(realpath "$1")
name=${2:-$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-' | tr -s '-')}
program=$root/build/cpu/bin/stages
[ -x "$program" ] || "$root/tools/build.sh" cpu stages
out=$root/results/$name
mkdir -p "$out"

processors=$(nproc)
cores=$(lscpu -p=core,socket | grep -v '^#' | sort -u | wc -l)
ranks=$(printf '%s\n' 1 2 4 8 16 "$cores" | sort -nu | awk -v most="$processors" '$1 <= most' | paste -sd,)

# What the processors are worth together, without memory: a loop in a small interpreter, by one process and by as many as
# there are ranks. In a virtual machine two processors may be threads of one core, whatever lscpu says; then this shows it.
loop() { awk 'BEGIN { for (i = 0; i < 2e7; ++i) s += i * i }'; }
loops() {
  local start=$EPOCHREALTIME
  for _ in $(seq "$1"); do loop & done
  wait
  awk -v n="$1" -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%d at once: %.2f s, %.2f loops a second\n", n, to - from, n / (to - from) }'
}
known="machine rungs d1 matrix distributed chain vector columns"
wanted=" ${*:3} "
[ "$wanted" != "  " ] || wanted=" $known "
for part in $wanted; do
  [[ " $known " == *" $part "* ]] || { echo "measure-mpi: there is no part '$part'; give some of $known" >&2; exit 2; }
done
echo "$cores cores, $processors processors, ranks $ranks, results in $out" >&2

machine() {
  lscpu; echo; cat /sys/fs/cgroup/cpu.max 2> /dev/null || true; df -h /dev/shm; uptime
  echo; echo "The same loop in several processes, without memory:"
  loops 1 > /dev/null
  for n in ${ranks//,/ }; do loops "$n"; done
}
if [[ $wanted == *" machine "* ]]; then machine | tee "$out/mpi-machine.txt" | grep 'at once' >&2; fi

measure() {  # PART[-PIECE] OPTIONS...
  [[ $wanted == *" ${1%-*} "* ]] || return 0
  local file=$out/mpi-$1.json
  shift
  echo "tools/ranks.sh $ranks $*" >&2
  # The name of the file is enough in the results: the directory belongs to this machine.
  (cd "$(dirname "$matrix")" && STAGES_PROGRAM=$program "$root/tools/ranks.sh" "$ranks" "$@" --json "$file") | tee "$out/last.txt" | sed -n '/on ranks/,$p'
  rm -f "$out/last.txt"
  "$root/tools/record.py" pack "$file"
}
file=$(basename "$matrix")
spgemm=(--op spgemm --stage 01,02 --time-budget "${STAGES_TIME_BUDGET:-2}")

measure rungs -m data:d1 data:web data:fem "${spgemm[@]}" --filter 'gustavson_adaptive|02_mpi/[^c]' --max-work 2e10
measure d1 -m data:d1 "${spgemm[@]}" --filter '01_|02_mpi/[^c]' --max-work 2e10
measure matrix -m "$file" "${spgemm[@]}"
measure distributed -m data:d1 "$file" "${spgemm[@]}" --filter 'gustavson|distributed|balanced' --destination distributed
measure chain -m data:d1 gen:stencil:points=7,nx=40 --op spgemm --mode chain --filter '02_.*/(balanced|distributed)' \
  --destination host,distributed --check once --time-budget "${STAGES_TIME_BUDGET:-2}"
measure vector -m "$file" gen:stencil:points=27,nx=64 --op spmv,spmm --stage 01,02
# Few rows of A, because it is about B, and dot products with all of it take long.
columns=("${spgemm[@]}" --filter 02_mpi/columns --max-work 2e10 --check once)
measure columns-d1 -m data:d1 "${columns[@]}"
measure columns-large -m gen:fixed:rows=16,cols=2e5,per_row=16 -b gen:uniform:n=2e5,per_row=16 "${columns[@]}"
echo "written to $out" >&2
