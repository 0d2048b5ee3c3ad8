#!/usr/bin/env bash
# Fits the rules that choose a kernel (data/rules.txt, common/gpu/rules.hpp) to what this machine's GPU takes for each:
#
#   tools/fit-rules.sh [--rules FILE] [--out DIRECTORY] [OPERATION ...]
#
# First it records every form that rules may choose on the matrices of data/matrices.tsv, those to fit on and those that are only
# reported, a family at a time: DIRECTORY/OPERATION-LIST-FAMILY.json. What is there already stays, so that the work may be done in
# parts. Then tools/fit_rules.py makes the trees, writes them to FILE and prints what they lose against the best form of each matrix.
# `stages run --rules FILE` goes by them. Files of public collections are taken from STAGES_FILES, or left out where it lacks them.
#
# Operations: spmv; spmm, with 16, 32 and 128 columns. Defaults: out/rules.txt; out/rules; all operations. The program
# is build/gpu/bin/stages, or STAGES_PROGRAM. STAGES_LISTS="fitted", STAGES_TYPES="f32": those alone. Several may work on one DIRECTORY,
# each on a GPU of its own (CUDA_VISIBLE_DEVICES).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/matrices.sh
program=${STAGES_PROGRAM:-build/gpu/bin/stages} rules=out/rules.txt out=out/rules
while [ $# -gt 0 ]; do
  case $1 in
    --rules) rules=${2:?--rules needs a FILE}; shift 2 ;;
    --out) out=${2:?--out needs a DIRECTORY}; shift 2 ;;
    spmv | spmm) break ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || set -- spmv spmm
[ -x "$program" ] || { echo "fit-rules: there is no program $program; build it (tools/build.sh gpu stages), or name one by STAGES_PROGRAM" >&2; exit 2; }
mkdir -p "$out" "$(dirname "$rules")"

# measure OPERATION LIST FAMILY TYPE: the record of one family.
measure() {
  local record filter words status=0
  record=$out/$1-$2-${3// /_}-$4.json
  [ ! -s "$record" ] || return 0
  exec 9> "$record.lock"
  flock -n 9 || return 0
  listed "$@"
  [ ${#listed[@]} -gt 0 ] || return 0
  case $1 in spmm) words=(--n-cols 16,32,128) ;; *) words=() ;; esac
  filter=${forms_of[$1]}
  [ "$2" = fitted ] || filter+="|vendor/cusparse_$1"  # where rules are only judged
  echo "$1, $2: $3, $4" >&2
  "$program" run "${listed[@]}" --op "$1" --type "$4" "${words[@]}" --filter "$filter" --quick --max-noise 2 --check once --max-seconds 1 --max-work 1e13 \
    --time-budget "${STAGES_TIME_BUDGET:-0.02}" --json "$record.part" > /dev/null || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || { echo "fit-rules: $1 on $3 went wrong" >&2; return $status; }
  python3 -B tools/record.py pack "$record.part" > /dev/null
  mv "$record.part" "$record"
  rm -f "$record.lock"
}

for operation in "$@"; do
  for list in ${STAGES_LISTS:-fitted reported}; do
    while read -r family; do
      for type in ${STAGES_TYPES:-f32 f64}; do measure "$operation" "$list" "$family" "$type"; done
    done < <(awk -F '\t' -v list="$list" '!/^#/ && $2 == list {print $1}' data/matrices.tsv | uniq)
  done
done
python3 -B tools/fit_rules.py --rules "$rules" "$out"/*.json
