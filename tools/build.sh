#!/usr/bin/env bash
# Configures and builds one preset: tools/build.sh PRESET [TARGET...]. Shows how far it is; of what the compiler says only what went
# wrong. Builds in build/PRESET, or in STAGES_BUILD/PRESET where the environment names another place, one call at a time. After an
# interruption the same call goes on.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: tools/build.sh PRESET [TARGET...]; presets: cpu, asan, gpu, gpu-compile, fuzz" >&2; exit 2; }
cd "$(dirname "$0")/.."
preset=$1
shift
root=${STAGES_BUILD:-build}
build=$root/$preset

if ! { mkdir -p "$build" && exec 9> "$build/.lock"; } 2> /dev/null; then
  echo "build: $build cannot be written; name a place that can: STAGES_BUILD=/tmp/stages-build" >&2
  exit 2
fi
log=$build/build.log

# led COMMAND...: in a process group of its own, which ends with this script.
led() { set -m; "$@" & group=$!; set +m; wait "$group"; }
trap 'trap "" INT TERM HUP; { kill -- "-${group:-}" && wait "$group"; } 2> /dev/null || true
  printf "\nbuild: interrupted; the same call goes on from here\n" >&2; exit 130' INT TERM HUP
flock -n 9 || { echo "build: waiting for another one, which builds in $build" >&2; led flock 9 || true; }

# failed WHAT: the end of this script, with what is known of the reason.
failed() {
  if grep -q "No space left on device" "$log" || [ "$(df --output=avail "$build" | tail -n 1)" -lt 1024 ]; then
    echo "build: the disk of $build is full; free some room (a build takes about 1 GB), or name another place: STAGES_BUILD=DIR; the same call then goes on" >&2
  elif grep -qE "Killed signal terminated program cc1plus|virtual memory exhausted|cc1plus: out of memory" "$log"; then
    echo "build: the compiler ran out of memory; close other programs, or take fewer jobs: CMAKE_BUILD_PARALLEL_LEVEL=1; the same call then goes on" >&2
  else
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)|^ninja: build stopped' "$log" | head -n 200 >&2 || true
    echo "build: $1 failed; all that was said is in $log" >&2
  fi
  exit 1
}

led cmake --preset "$preset" -B "$build" > "$log" 2>&1 || failed "the configuration of $preset"
grep -E "left out" "$log" | sed 's/^-- //' >&2 || true

# A heavy template file takes a GB to compile: no more jobs than the memory can hold.
memory_gb=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
[ "$jobs" -gt $((memory_gb > 1 ? memory_gb : 1)) ] && jobs=$((memory_gb > 1 ? memory_gb : 1))

# How far it is: on a terminal a line in place, elsewhere a line now and then.
show() {
  local line last=$SECONDS
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [ -t 2 ]; then
      printf '\r\033[Kbuilding %s: %s of %s  %s' "$preset" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${line##*/}" >&2
    elif [ $((SECONDS - last)) -ge 15 ]; then
      echo "building $preset: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}" >&2
      last=$SECONDS
    fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

echo "building preset $preset${*:+: $*}" >&2
compile() {  # TARGET...
  trap : TERM  # until all that it has started has ended, and with that the pipe
  NINJA_STATUS='[%f/%t] ' cmake --build "$build" -j "$jobs" ${1:+--target "$@"} 2>&1 | { trap '' TERM; tee "$log" | show; }
}
led compile "$@" || failed "the build of $preset"
