#!/usr/bin/env bash
# Measures the same several times, and counts how often a comparison of equal runs finds a difference, and how often it
# misses one: the table of docs/timing.md.
#
#   tools/same-again.sh OUT [RUNS]
#
# RUNS is an even number, 6 without it. Each run is of three processes (tools/processes.sh), and its files go to OUT; what
# OUT has already is not measured again, so that it may be ended and go on. Runs are compared in pairs as if only libraries
# were known to be the same. On a GPU it measures twice more, with a kernel behind each product that spins, so that the
# device is busy for 5 % and for 3 % longer. STAGES_PROGRAM: build/gpu/bin/stages or, without it, build/cpu/bin/stages.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in "" | -*) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
out=$1 runs=${2:-6} program=${STAGES_PROGRAM:-build/gpu/bin/stages}
[ "$runs" -ge 2 ] 2> /dev/null && [ $((runs % 2)) -eq 0 ] || { echo "same-again: RUNS is '$runs'; give an even number" >&2; exit 2; }
[ -x "$program" ] || program=build/cpu/bin/stages
[ -x "$program" ] || { echo "same-again: nothing is built; see docs/install.md" >&2; exit 2; }
mkdir -p "$out"
gpu=$("$program" list --json | grep -c '"backend": *"gpu"' || true)

# measure RUN NAME OPTION ...
measure() {
  [ ! -e "$out/$2-$1.json" ] || return 0
  echo "== run $1: $2" >&2
  tools/processes.sh "${STAGES_PROCESSES:-3}" "$program" run "${@:3}" --check once --time-budget 0.2 --json "$out/.$2" > "$out/$2.log"
  tools/record.py pack "$out/.$2"
  mv "$out/.$2" "$out/$2-$1.json"
}

measure_all() {
  if [ "$gpu" -eq 0 ]; then
    measure "$1" spmv -m data:road -m data:fem --op spmv --stage 01,vendor
    measure "$1" spmm -m data:road -m data:fem --op spmm --stage 01,vendor
    return
  fi
  measure "$1" spmv -m gen:twin:arxiv -m gen:stencil:points=27,nx=50 -m gen:fixed:n=1024,per_row=32 -m data:road -m gen:rmat:scale=17 \
    --op spmv --filter '0[3456]_cuda|vendor/cu' --max-work 2e8
  measure "$1" spmm -m gen:twin:arxiv -m gen:rmat:scale=15 -m gen:stencil:points=27,nx=40 --op spmm --n-cols 32,128 \
    --filter '07_spmm/[^t]|vendor/cusparse_spmm' --max-work 1e12
  measure "$1" spgemm -m gen:rmat:scale=13,edge_factor=8 -m gen:stencil:points=7,nx=40 -m data:fem --op spgemm \
    --filter '08_[^/]*/[^m]|vendor/cusparse_spgemm' --max-work 1e11
}

for run in $(seq "$runs"); do measure_all "$run"; done
[ "$gpu" -eq 0 ] || for percent in 5 3; do STAGES_SLOWER=$percent measure_all "slower_$percent"; done
python3 tools/same_again.py "$out"
