#!/usr/bin/env bash
# Builds, once, what grading needs. Gradescope runs it as root when the zip is uploaded, and keeps what it leaves. It needs
# Debian 12, Ubuntu 22.04, or newer, and a network.
#
#   setup.sh [DIRECTORY]      where the build goes; without it stages-build beside the directory of this file
#
# Where root runs it, students' programs run as another user: he may read what they are linked with, and no source, no
# step, and no program of ours.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$(dirname "$here")/stages-build}
root=$here/stages
fail() {
  echo "setup: $*" >&2
  exit 1
}
read -r -a packages < "$here/packages.txt"
mkdir -p "$build" || fail "$build cannot be written; name another directory"
log=$build/build.log
if [ "$(id -u)" -eq 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  { apt-get -q update && apt-get -q -y --no-install-recommends install "${packages[@]}"; } > "$log" 2>&1 ||
    { tail -n 20 "$log" >&2; fail "apt-get could not install ${packages[*]}"; }
else
  echo "setup: only root can install packages; these have to be there: ${packages[*]}" >&2
fi
[ -d "$root" ] || { mkdir "$root" && tar -xzf "$here/stages.tar.gz" -C "$root"; }

# For any processor: it may be another one that grades. Nothing is timed here, so the compiler need not take long.
built() {
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DSTAGES_BACKEND=cpu \
    -DSTAGES_NATIVE=OFF -DSTAGES_TESTS=OFF || return
  # The judge, and what all students' programs share.
  mapfile -t targets < <(cmake --build "$build" --target help | sed -nE 's/^((graded|counted)_[a-z_]+): phony$/\1/p')
  cmake --build "$build" -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" --target stages "${targets[@]}"
}
built > "$log" 2>&1 || { tail -n 20 "$log" >&2; fail "the build failed; all that was said is in $log"; }
if [ "$(id -u)" -eq 0 ]; then
  chmod 700 "$here"  # what lies in it is copied for the compiler, rights and all
  chmod 700 "$build/bin"
  find "$build" -name '*stage_[0-9]*' -prune -exec chmod -R go-rwx {} +
fi
sha256sum < "$here/stages.tar.gz" > "$build/built-from"
echo "setup: built in $build"
