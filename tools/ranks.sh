#!/usr/bin/env bash
# `stages run` on several numbers of processes, one after the other, with the results in one table and one file:
#
#   tools/ranks.sh 1,2,4 -m data:d1 --op spgemm --stage 01,02 --json out.json
#
# Behind the numbers stand options of `stages run`. Entries for one process run with the first number only; in weak scaling
# (--weak), where each number has a problem of its own, with all. After each number the file has all that is done, also
# where a later number fails or a signal ends the loop. Exit codes are those of `stages run`.
#
# STAGES_PROGRAM names the program (default: stages on the PATH, or else build/cpu/bin/stages).
set -uo pipefail
[[ ${1:-} =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ && $# -gt 1 ]] ||
  { echo "usage: tools/ranks.sh 1,2,4 OPTIONS of stages run" >&2; exit 2; }
numbers=$(tr , '\n' <<< "$1" | sort -nu)
shift
program=${STAGES_PROGRAM:-$(command -v stages || echo "$(dirname "$0")/../build/cpu/bin/stages")}
[ -x "$program" ] || { echo "ranks: there is no program $program; build it by tools/build.sh cpu stages" >&2; exit 2; }

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
[[ " $* " == *" --json"[\ =]* ]] || set -- "$@" --json "$work/results.json"
touch "$work/table"

# The table of the last number that has one.
show() { cat "$([ -s "$work/now" ] && echo "$work/now" || echo "$work/table")"; }

child=
ended() {  # by a signal: what there is was written by the program
  trap '' INT TERM HUP
  [ -z "$child" ] || { kill "$child" 2> /dev/null; wait "$child"; }
  show
  exit "$1"
}
trap 'ended 130' INT
trap 'ended 143' TERM
trap 'ended 129' HUP

code=77
more=()
for n in $numbers; do
  "$program" run "$@" --ranks "$n" "${more[@]}" > "$work/now" &
  child=$!
  wait "$child"
  now=$?
  child=
  case $now:$([ -s "$work/now" ] && echo shown) in
    0:shown) [ $code = 1 ] || code=0 ;;
    1:shown) code=1 ;;
    77:shown) ;;
    *)
      show
      echo "ranks: the run on $n ranks ended with exit code $now; what was done before it is kept" >&2
      exit 2
      ;;
  esac
  mv "$work/now" "$work/table"
  more=(--append)
  [[ " $* " == *" --weak "* ]] || more+=(--ranks-only)
done
show
exit $code
