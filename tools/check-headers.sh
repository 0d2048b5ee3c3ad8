#!/usr/bin/env bash
# Every header compiles alone: whoever includes it needs to know nothing else. Its warnings are the build's business.
# A header of a library that is not here (MPI, Boost, CUDA's libraries) is passed over.
#
#   tools/check-headers.sh [HEADER]      without one all, side by side
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  git ls-files '*.hpp' '*.cuh' ':!tests/install' | xargs -P "$(nproc)" -n 1 tools/check-headers.sh || exit 1
  exit
fi
# A compiler cache knows the headers that did not change; it caches what makes an object, and asks the compiler what was included.
compiler=(g++)
command -v ccache > /dev/null && compiler=(env CCACHE_DEPEND=1 ccache g++ -MD)
objects=${STAGES_BUILD:-build}/headers
mkdir -p "$objects"
read -r -a mpi <<< "$(mpicc --showme:compile 2> /dev/null || true)"
source=$objects/${1//\//-}.cpp
echo "#include \"$1\"" > "$source"
said=$("${compiler[@]}" -std=c++20 -w -I. "${mpi[@]}" -c "$source" -o "$source.o" 2>&1) && { rm -f "$source.o" "$source.d"; exit; }
grep -qE 'fatal error: (mpi\.h|boost/|gtest/|cu(da|blas|sparse)[^:]*): No such file' <<< "$said" && exit
echo "$said" | head -n 20 >&2
echo "check-headers: $1 does not compile alone" >&2
exit 1
