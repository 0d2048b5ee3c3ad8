#!/usr/bin/env bash
# The study behind step 7: SpMM on the twins of the thirteen graphs of its original, every entry and every algorithm of cuSPARSE,
# in one process for each part of the twins, which makes each matrix once for all numbers of columns.
#
#   tools/spmm-study.sh [PROGRAM [DIRECTORY [PART ...]]]
#
# The part `hubs` is another study: what a row with a fifth of all non-zeros costs, on four twins with it and as they are, thinned so far
# that a row can hold as many. It writes DIRECTORY/spmm_hubs.json.
#
# The part `sweep` runs D3's kernels (rungs 0 to 3) with other values of the parameters that D3 tuned for each graph, and with the rows sorted, on am and
# arxiv, always for N = 32 and 256: DIRECTORY/spmm_sweep.json.
#
# The part `real` takes real matrices, the files named below that are in the directory STAGES_FILES: weights of pruned networks, graphs of
# the web and of people, meshes, and a near-dense one. All rungs and the library, in DIRECTORY/spmm_real.json. It is left out unless it is named.
#
# For 32, 128 and 256 columns. Defaults: build/gpu/bin/stages; out/spmm; all parts: small (three graphs of up to 240,000 vertices), medium (four of up
# to 16 million non-zeros), large (three of up to 80), huge (three of up to 264), hubs, sweep. Writes DIRECTORY/spmm_n<N>_<PART>.json.
# The small graphs are checked in full. Of the others, whose operands have gigabytes, what the timed runs leave is checked (stages
# run --check once), as the same entries have been checked on the small ones. Nearly all of the time goes into making the matrices, moving and checking. Without a GPU the kernels would run on the executor, which is too
# slow for these.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
columns=32,128,256
case ${1:-} in -*) echo "usage: tools/spmm-study.sh [PROGRAM [DIRECTORY [PART ...]]]" >&2; exit 2 ;; esac
program=${1:-$root/build/gpu/bin/stages}
[ -x "$program" ] || { echo "spmm-study: there is no program $program; build it (tools/build.sh gpu stages) or name another" >&2; exit 2; }
out=${2:-$root/out/spmm}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- small medium large huge hubs sweep
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# `thread_per_row` takes seconds where a row is long, and is for the twins alone.
entries='07_spmm/(warp_per_row|split_rows|merged_short_rows|equal_shares|loads_ahead|vector_lanes|strips|balanced|adaptive)$|vendor/cusparse_spmm'

# measure COLUMNS ENTRIES CHECK FILE WORD ...: one run; the words name its matrices, and values of parameters.
measure() {
  local columns=$1 entries=$2 check=$3 file=$4
  shift 4
  local code=0
  "$program" run "$@" --op spmm --n-cols "$columns" --filter "$entries" --max-work 1e13 --check "$check" \
    --time-budget "${STAGES_TIME_BUDGET:-0.1}" --json "$file" || code=$?
  [ $code -ne 77 ] || code=0  # all skipped, with reasons: a GPU with too little memory
  return $code
}

# hubs: the same twins with and without a row that holds 20 % of the non-zeros drawn.
hubs() {
  local twin matrices=()
  for twin in arxiv,thin=2 collab,thin=3 am,thin=2 youtube,thin=2; do
    matrices+=(-m "gen:twin:$twin" -m "gen:twin:$twin,hub_share=0.2")
  done
  measure "$columns" "$entries" once "$out/spmm_hubs.json" "${matrices[@]}"
}

# sweep: several values of one parameter at a time, beside the rule's.
sweep() {
  measure 32,256 '07_spmm/(thread_per_row|warp_per_row|split_rows|merged_short_rows|merged_after_sorting)$|vendor/cusparse_spmm' once "$out/spmm_sweep.json" \
    -m gen:twin:am -m gen:twin:arxiv --set 07_spmm/warp_per_row:columns=1,2 --set 07_spmm/split_rows:chunk=32,64,128,256,512,1024,4096 \
    --set 07_spmm/merged_short_rows:rows=1,2,4,8,16,32 --set 07_spmm/merged_short_rows:longest=1,2,3,4,8,16,32 \
    --set 07_spmm/merged_after_sorting:longest=1,2,3,4,8,16,32
}

# real: what is not made by a generator.
real() {
  local name matrices=()
  for name in dlmc_rn50_conv3_mag090 dlmc_rn50_final_dense_vd080 dlmc_transformer_embed_mag095 dlmc_transformer_embed_l0_098 \
    dlmc_transformer_ffn1_l0_090 cnr-2000 ego-twitter soc-Slashdot0902 wiki-Vote PGPgiantcompo wave 4elt commanche_dual ergo_overlap_988; do
    if [ -f "${STAGES_FILES:-}/$name.mtx.gz" ]; then
      matrices+=(-m "$STAGES_FILES/$name.mtx.gz")
    else
      echo "spmm-study: $name.mtx.gz is not in STAGES_FILES and is left out" >&2
    fi
  done
  [ ${#matrices[@]} -gt 0 ] || { echo "spmm-study: STAGES_FILES names no directory with a file of the part 'real'" >&2; return 2; }
  measure "$columns" "${entries/strips/strips|tensor_tiles|whole_rows}" once "$out/spmm_real.json" "${matrices[@]}"
}

# split FILE PART: the rows of one number of columns each to a file of their own.
split() {
  PYTHONPATH=$root/tools python3 - "$1" "$out" "$2" "$columns" <<'EOF'
import json, pathlib, record, sys

path, out, part, columns = sys.argv[1:]
results = json.loads(pathlib.Path(path).read_text())
for n in columns.split(","):
    rows = [row for row in results["results"] if row["problem"]["options"] == f"N = {n}"]
    pathlib.Path(f"{out}/spmm_n{n}_{part}.json").write_text(record.text_of(record.packed({**results, "results": rows})))
EOF
}

for part in "$@"; do
  check=once
  case $part in
    hubs | sweep | real)
      echo "spmm_$part" >&2
      status=0
      "$part" || status=$?
      [ ! -s "$out/spmm_$part.json" ] || "$root/tools/record.py" pack "$out/spmm_$part.json"
      [ "$status" = 0 ] || exit "$status"
      continue ;;
    small) twins="arxiv collab ddi" check=full ;;
    medium) twins="am youtube yelp wikikg2" ;;
    large) twins="ppa protein citation" ;;
    huge) twins="reddit products amazon" ;;
    *) echo "spmm-study: there is no part '$part'; give small, medium, large, huge, hubs, sweep or real" >&2; exit 2 ;;
  esac
  matrices=()
  for twin in $twins; do matrices+=(-m "gen:twin:$twin"); done
  echo "spmm $part, N = $columns" >&2
  all=$work/spmm_$part.json
  status=0
  measure "$columns" "${entries/(/(thread_per_row|}" "$check" "$all" "${matrices[@]}" || status=$?
  [ ! -s "$all" ] || split "$all" "$part"
  [ "$status" = 0 ] || exit "$status"
done
echo "written: $out/spmm_*.json" >&2
