#!/usr/bin/env bash
# Installs what the project needs and this machine lacks, from the distribution (Debian 12, Ubuntu 24.04, and their
# kin). Run as root, or as a user who may use sudo. Where nothing is missing it does nothing and asks for nothing.
#
#   tools/install-deps.sh [run|test]     test (the default) adds what only the tests need
set -euo pipefail

purpose=${1:-test}
needed=(g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev)
# Each of these adds something; without it a part is left out with a note, and the rest works.
wanted=(libeigen3-dev libgraphblas-dev libboost-context-dev libopenmpi-dev openmpi-bin python3-matplotlib python3-jinja2)
if [ "$purpose" = test ]; then
  needed+=(libgtest-dev python3)
  wanted+=(python3-scipy clang clang-format ccache chromium)
fi

if ! command -v dpkg-query > /dev/null; then
  echo "install-deps: no Debian or Ubuntu; make sure that these are here: ${needed[*]}, and if possible ${wanted[*]}" >&2
  exit 0
fi

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }
missing() { for package in "$@"; do is_installed "$package" || echo "$package"; done; }

# Optional packages that the distribution did not have: asked for once, not at every run.
not_to_be_had=build/packages-not-to-be-had
cd "$(dirname "$0")/.."
mapfile -t need < <(missing "${needed[@]}")
mapfile -t want < <(missing "${wanted[@]}" | grep -vxFf <(cat "$not_to_be_had" 2> /dev/null))
[ ${#need[@]} -eq 0 ] && [ ${#want[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "install-deps: ${need[*]} ${want[*]} are missing; run this as root, or install sudo" >&2
    [ ${#need[@]} -eq 0 ] && exit 0
    exit 1
  fi
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends)

echo "install-deps: installing ${need[*]} ${want[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { "$@" > "$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }; }
quietly "${apt[@]}" update || echo "install-deps: the package lists could not be renewed; trying with the old ones" >&2
if [ ${#need[@]} -gt 0 ]; then quietly "${apt[@]}" install "${need[@]}"; fi
for package in "${want[@]}"; do
  quietly "${apt[@]}" install "$package" && continue
  echo "install-deps: going on without $package" >&2
  mkdir -p build && echo "$package" >> "$not_to_be_had"
done
