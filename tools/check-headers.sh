#!/usr/bin/env bash
# Every header compiles alone: whoever includes it needs to know nothing else. Headers of kernels go through the same
# compiler, as the executor's sources do.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=()
command -v mpicc > /dev/null && read -r -a flags <<< "$(mpicc --showme:compile 2> /dev/null || true)"

compile() {
  echo "#include \"$1\"" | g++ -std=c++20 -fsyntax-only -Wall -Wextra -I. "${flags[@]}" -x c++ - \
    || { echo "check-headers: $1 does not compile alone" >&2; return 1; }
}

# What belongs to an optional library is checked where that library is.
has_its_libraries() {
  local library
  library=$(grep -oE '#include <(boost/[^>]*|mpi\.h|gtest/[^>]*)>' "$1" | head -n 1)
  [ -z "$library" ] || echo "$library" | g++ -E "${flags[@]}" -x c++ - > /dev/null 2>&1
}

failed=0
running=0
for header in $(git ls-files '*.hpp' '*.cuh'); do
  has_its_libraries "$header" || continue
  compile "$header" &
  running=$((running + 1))
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
