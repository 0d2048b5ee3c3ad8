#!/usr/bin/env bash
# The study behind step 7: SpMM on the twins of the thirteen graphs of its original, every entry and every algorithm of cuSPARSE,
# in one process for each number of columns and part of the twins, so that each can be recorded alone.
#
#   tools/spmm-study.sh [--n-cols N,...] [PROGRAM [DIRECTORY [PART ...]]]
#
# The part `order` is another study: what it is worth to reorder rows, on communities in the order planted and in a shuffled one,
# and on R-MAT. It writes DIRECTORY/spmm_order.json, always for N = 32 and 128.
#
# Defaults: 32,256; build/gpu/bin/stages; out/spmm; all parts: small (seven graphs of up to 16 million non-zeros), large (three
# of up to 80), huge (three of up to 264) and order. Writes DIRECTORY/spmm_n<N>_<PART>.json. Nearly all of the time goes into
# making the matrices and into checking. Without a GPU the kernels would run on the executor, which is too slow for these.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
columns=32,256
if [ "${1:-}" = --n-cols ]; then
  columns=$2
  shift 2
fi
case ${1:-} in -*) echo "usage: tools/spmm-study.sh [--n-cols N,...] [PROGRAM [DIRECTORY [PART ...]]]" >&2; exit 2 ;; esac
program=${1:-$root/build/gpu/bin/stages}
[ -x "$program" ] || { echo "spmm-study: there is no program $program; build it (tools/build.sh gpu stages) or name another" >&2; exit 2; }
out=${2:-$root/out/spmm}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- small large huge order
mkdir -p "$out"

# Reordering takes seconds on the CPU for each matrix, so it has a study of its own.
ours='07_spmm/(warp_per_row|split_rows|merged_short_rows|balanced)$'

# reordering: times `balanced` on matrices as they come and with their rows reordered.
reordering() {
  local size matrices=()
  for size in n=1e5,blocks=500,edge_factor=16 n=1e6,blocks=2000,edge_factor=16; do
    matrices+=(-m "gen:communities:$size,order=planted" -m "gen:communities:$size,order=shuffled")
  done
  "$program" run "${matrices[@]}" -m gen:rmat:scale=20,edge_factor=16 -m gen:twin:arxiv -m gen:twin:youtube --op spmm --n-cols 32,128 \
    --filter '07_spmm/balanced|vendor/cusparse_spmm' --max-work 1e13 --time-budget "${STAGES_TIME_BUDGET:-0.1}" \
    --json "$out/spmm_order.json"
}

for part in "$@"; do
  case $part in
    order)
      echo "spmm_order" >&2
      reordering
      continue ;;
    small) twins="arxiv collab ddi am youtube yelp wikikg2" ;;
    large) twins="ppa protein citation" ;;
    huge) twins="reddit products amazon" ;;
    *) echo "spmm-study: there is no part '$part'; give small, large, huge or order" >&2; exit 2 ;;
  esac
  matrices=()
  for twin in $twins; do matrices+=(-m "gen:twin:$twin"); done
  for n in ${columns//,/ }; do
    echo "spmm_n${n}_$part" >&2
    "$program" run "${matrices[@]}" --op spmm --n-cols "$n" --filter "$ours|vendor/cusparse_spmm" --max-work 1e13 \
      --time-budget "${STAGES_TIME_BUDGET:-0.1}" --json "$out/spmm_n${n}_$part.json"
  done
done
echo "written: $out/spmm_*.json" >&2
