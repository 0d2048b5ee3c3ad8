# How long the parts of a script took; for . (source). Scripts that such a script starts add to the same list.
#
#   . tools/parts.sh
#   part "what is done next"
#   last_part ctest ...        its closing lines stay the last ones: the table comes before them
if [ -z "${STAGES_PARTS:-}" ]; then
  STAGES_PARTS=$(mktemp)
  export STAGES_PARTS
  trap 'rm -f "$STAGES_PARTS"' EXIT
fi

part() {
  echo "$(date +%s) $*" >> "$STAGES_PARTS"
  echo "== $*" >&2
}

table_of_parts() {
  local time name begun="" last=""
  printf '\nseconds  part\n'
  while read -r time name; do
    [ -z "$last" ] || printf '%7d  %s\n' $((time - begun)) "$last"
    begun=$time last=$name
  done < <(cat "$STAGES_PARTS"; echo "$(date +%s) end")
  echo
}

last_part() {
  local line
  "$@" | while IFS= read -r line; do
    [[ $line != *"% tests passed, "* ]] || table_of_parts
    printf '%s\n' "$line"
  done
}
