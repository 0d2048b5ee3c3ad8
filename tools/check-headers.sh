#!/usr/bin/env bash
# Every header compiles alone: whoever includes it needs to know nothing else. Its warnings are the build's business.
# A header of a library that is not here (MPI, Boost, CUDA's libraries) is passed over.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=()
# A compiler cache knows the headers that did not change; it caches what makes an object.
compiler=(g++)
command -v ccache > /dev/null && compiler=(ccache g++)
objects=${STAGES_BUILD:-build}/headers
mkdir -p "$objects"
command -v mpicc > /dev/null && read -r -a mpi <<< "$(mpicc --showme:compile 2> /dev/null || true)" && flags+=("${mpi[@]}")

compile() {
  local said source=$objects/${1//\//-}.cpp
  echo "#include \"$1\"" > "$source"
  said=$("${compiler[@]}" -std=c++20 -w -I. "${flags[@]}" -c "$source" -o "$source.o" 2>&1) && { rm "$source.o"; return; }
  grep -qE 'fatal error: (mpi\.h|boost/|gtest/|cu(da|blas|sparse)[^:]*): No such file' <<< "$said" && return
  echo "$said" | head -n 20 >&2
  echo "check-headers: $1 does not compile alone" >&2
  return 1
}

failed=0
running=0
for header in $(git ls-files '*.hpp' '*.cuh' ':!tests/install'); do
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
