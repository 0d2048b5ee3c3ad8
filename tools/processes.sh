#!/usr/bin/env bash
# Runs a command of `stages run` in several processes, one after the other:
#
#   tools/processes.sh N PROGRAM run ... --json FILE
#
# FILE gets what all of them found out. A row's time is then the median of theirs, and its +- says where the next
# process's will lie (docs/timing.md); of one process it says nothing of that.
set -uo pipefail
[ $# -ge 4 ] && [ "$1" -gt 0 ] 2> /dev/null || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
json=$(printf '%s\n' "$@" | sed -n '/^--json$/{n;p}')
[ -n "$json" ] || { echo "processes: the command has no --json FILE, to which each process adds" >&2; exit 2; }
rm -f "$json"
for _ in $(seq "$1"); do "${@:2}" --append || exit; done
