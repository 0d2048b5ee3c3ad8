#!/usr/bin/env bash
# Configures and builds one preset: tools/build.sh PRESET [TARGET...]. Says little where all goes well.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
grep -E "left out" "$log" | sed 's/^-- //' >&2 || true
echo "building preset $preset" >&2
targets=()
[ $# -gt 0 ] && targets=(--target "$@")
# A heavy template file takes a GB to compile: no more jobs than the memory can hold.
memory_gb=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=$(nproc)
[ "$jobs" -gt $((memory_gb > 1 ? memory_gb : 1)) ] && jobs=$((memory_gb > 1 ? memory_gb : 1))
cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" > "$log" 2>&1 || {
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log" | head -n 200 >&2
  exit 1
}
