# The lists of data/matrices.tsv, and the forms that rules choose among, for tools/verify-gpu.sh and fit-rules.sh, which source this in bash.

# Of an operation: its forms and the entry that chooses, as a --filter.
declare -A forms_of=([spmv]='05_.*/(balanced|sliced|adaptive)$' [spmm]='07_.*/(balanced|whole_rows|dense_tiles|adaptive)$')

# listed OPERATION LIST [FAMILY]: its matrices as options of `stages run`, to the array `listed`: the generated ones, and the files that
# are in the directory STAGES_FILES.
listed() {
  local matrix
  listed=()
  while read -r matrix; do
    case $matrix in
      gen:* | data:*) listed+=(-m "$matrix") ;;
      *) if [ -f "${STAGES_FILES:-}/$matrix" ]; then listed+=(-m "$STAGES_FILES/$matrix"); else echo "${0##*/}: $matrix is not in STAGES_FILES and is left out" >&2; fi ;;
    esac
  done < <(awk -F '\t' -v op="$1" -v list="$2" -v family="${3:-}" \
    '$2 == list && (family == "" || $1 == family) && ($3 == "all" || index($3, op)) {print $4}' data/matrices.tsv)
}
