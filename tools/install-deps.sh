#!/usr/bin/env bash
# Sees to the packages of others that the project needs. CMake says what is missing (cmake/probe), whoever installed what is
# there. Where nothing is missing it ends at once. Root, and who may use sudo without a password, gets the missing packages
# on Debian, Ubuntu and their kin; everybody else is told their names. It asks for no password.
#
#   tools/install-deps.sh [run|test|all]
#
# run: what ./run.sh needs; test (the default): what the tests need, too; all: also clang, clang-format and a browser, for
# .ci/run, where nothing may be left out. STAGES_SKIP_DEPS=1 turns it off. It writes into build, or into STAGES_BUILD. Exit
# code 2: something that is needed is missing.
set -euo pipefail
[ "${STAGES_SKIP_DEPS:-0}" = 1 ] && exit 0
purpose=${1:-test}
say() { echo "install-deps: $*" >&2; }
case $purpose in
  run | test | all) ;;
  *)
    say "no purpose '$purpose'; usage: tools/install-deps.sh [run|test|all]"
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."

# KEY|for which purpose|needed or wanted|what it is|Debian, Ubuntu|Fedora
things='cmake|run|needed|CMake 3.22|cmake|cmake
ninja|run|needed|ninja|ninja-build|ninja-build
compiler|run|needed|g++ 11 (or clang++ 16)|g++|gcc-c++
fmt|run|needed|fmt 8|libfmt-dev|fmt-devel
cli11|run|needed|CLI11 2.1|libcli11-dev|cli11-devel
json|run|needed|nlohmann_json 3.9|nlohmann-json3-dev|json-devel
zlib|run|needed|zlib|zlib1g-dev|zlib-devel
eigen|run|wanted|Eigen 3.3 (vendor/eigen)|libeigen3-dev|eigen3-devel
graphblas|run|wanted|GraphBLAS 7 (vendor/graphblas)|libgraphblas-dev|suitesparse-devel
boost|run|wanted|Boost.Context 1.61 (CUDA steps without a GPU)|libboost-context-dev|boost-devel
mpi|run|wanted|MPI 3.0 (02_mpi, several ranks)|libopenmpi-dev openmpi-bin|openmpi-devel
report|run|wanted|matplotlib and jinja2 (the report)|python3-matplotlib python3-jinja2|python3-matplotlib python3-jinja2
python|test|needed|python 3|python3|python3
googletest|test|needed|GoogleTest 1.11|libgtest-dev|gtest-devel
scipy|test|wanted|scipy (one test)|python3-scipy|python3-scipy
networkx|test|wanted|networkx (one test)|python3-networkx|python3-networkx
yaml|test|wanted|yaml (one test)|python3-yaml|python3-pyyaml
ccache|test|wanted|ccache (repeated builds in less time)|ccache|ccache
bubblewrap|test|wanted|bubblewrap (confines what is graded)|bubblewrap|bubblewrap
clang|all|wanted|clang++ (the fuzz target)|clang|clang
format|all|wanted|clang-format|clang-format|clang-tools-extra
browser|all|wanted|Chromium (one test)|chromium|chromium'

declare -A purpose_of need_of words_of debian fedora
while IFS='|' read -r key a b c d e; do
  purpose_of[$key]=$a need_of[$key]=$b words_of[$key]=$c debian[$key]=$d fedora[$key]=$e
done <<< "$things"
# of WHAT KEY...: what the table says of these keys, in a line; between two of them stands the first character of `between`.
of() {
  local -n told=$1
  local key
  for key in "${@:2}"; do echo "${told[$key]}"; done | paste -sd "${between:- }"
}
on_path() { command -v "$1" > /dev/null; }

build=${STAGES_BUILD:-build}
place=$build/probe
mkdir -p "$place" 2> /dev/null && [ -w "$place" ] || {
  say "$place cannot be written; builds go there: name a place that can, and that has room: STAGES_BUILD=/tmp/stages-build"
  exit 2
}
# One at a time: they share that directory, and apt has one lock.
exec 9> "$place/lock"
flock 9 2> /dev/null || true
log=$place/log.txt
trap 'say "interrupted; the next call goes on where this one ended"; exit 130' INT TERM

# A Python that has them will do: the distribution's, or one that conda made active.
python=/usr/bin/python3
has_modules() {
  local one
  for one in "$python" python3; do
    "$one" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "$@" 2> /dev/null && return
  done
  return 1
}

# Prints the keys of what is missing.
missing_now() {
  local one tools=()
  on_path cmake && [ "$(printf '3.22\n%s\n' "$(cmake --version | awk 'NR == 1 {print $3}')" | sort -V | head -n 1)" = 3.22 ] ||
    tools+=(cmake)
  on_path ninja || on_path ninja-build || tools+=(ninja)
  on_path "${CXX:-c++}" || on_path g++ || on_path clang++ || tools+=(compiler)
  if [ ${#tools[@]} -gt 0 ]; then
    printf '%s\n' "${tools[@]}"  # without these there is nobody to ask for the rest
  else
    rm -f "$place/CMakeCache.txt" "$place/missing.txt"  # what was there the last time may be gone
    if ! cmake -G Ninja -S cmake/probe -B "$place" > "$log" 2>&1 || [ ! -e "$place/missing.txt" ]; then
      say "CMake cannot compile here: $(grep -iE -m 1 'no space|error' "$log" || tail -n 1 "$log"); all of it: $log"
      return 2
    fi
    grep . "$place/missing.txt" || true
  fi
  on_path "$python" || on_path python3 || echo python
  has_modules matplotlib jinja2 || echo report
  for one in scipy networkx yaml; do has_modules $one || echo $one; done
  for one in ccache:ccache bwrap:bubblewrap clang++:clang clang-format:format; do on_path ${one%:*} || echo ${one#*:}; done
  on_path chromium || on_path chromium-browser || on_path google-chrome || echo browser
}

# Sets needed and wanted, the keys of what is missing for this purpose.
look() {
  local found key
  found=$(missing_now) || exit 2
  needed=()
  wanted=()
  for key in $found; do
    case $purpose:${purpose_of[$key]} in run:test | run:all | test:all) continue ;; esac
    if [ "$purpose" = all ] || [ "${need_of[$key]}" = needed ]; then needed+=("$key"); else wanted+=("$key"); fi
  done
}

# Wanted packages that apt could not give: asked for once a day, not at every run.
not_to_be_had=$build/packages-not-to-be-had
if [ -n "$(find "$not_to_be_had" -mmin +1440 2> /dev/null)" ]; then rm -f "$not_to_be_had"; fi
untried() {
  local key
  for key in "$@"; do grep -qsx "$key" "$not_to_be_had" || echo "$key"; done
}

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
    "$@" > "$log" 2>&1 9>&- < /dev/null
}
# install KEY...: by apt. A call that was interrupted leaves dpkg in the middle of something, which is ended first.
install() {
  local packages
  read -r -a packages <<< "$(of debian "$@")"
  apt install "${packages[@]}" && return
  if grep -q 'dpkg --configure -a' "$log"; then
    "${as_root[@]}" dpkg --configure -a > "$log" 2>&1 < /dev/null && apt install "${packages[@]}" && return
  fi
  say "apt-get could not install ${packages[*]}: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
  return 1
}

look
mapfile -t try < <(untried "${wanted[@]}")
if [ $((${#needed[@]} + ${#try[@]})) -gt 0 ] && on_path apt-get; then
  as_root=()
  can_install=true
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
    on_path sudo && sudo -n true 2> /dev/null || can_install=false
  fi
  # What can be asked for only with CMake there comes in a second round.
  for round in 1 2; do
    if ! $can_install || [ $((${#needed[@]} + ${#try[@]})) -eq 0 ]; then break; fi
    say "installing $(of debian "${needed[@]}" "${try[@]}")"
    [ $round = 2 ] || apt update || say "the package lists could not be renewed; trying with the old ones"
    [ ${#needed[@]} -eq 0 ] || install "${needed[@]}" || break
    if [ ${#try[@]} -gt 0 ] && ! install "${try[@]}"; then
      for key in "${try[@]}"; do install "$key" || true; done
    fi
    tried=" ${try[*]} "
    look
    for key in "${wanted[@]}"; do
      [[ $tried != *" $key "* ]] || echo "$key" >> "$not_to_be_had" 2> /dev/null || true
    done
    mapfile -t try < <(untried "${wanted[@]}")
  done
fi

# lack WORDS KEY...: what is missing, and what to type.
lack() {
  local words=$1 what
  shift
  what=$(between=';' of words_of "$@")
  say "$words: ${what//;/, }. Debian, Ubuntu: sudo apt-get install $(of debian "$@"); Fedora: dnf install $(of fedora "$@"); conda: docs/install.md"
}
[ ${#wanted[@]} -eq 0 ] || lack "left out, and the rest works without" "${wanted[@]}"
[ ${#needed[@]} -eq 0 ] || { lack "missing, or too old" "${needed[@]}"; exit 2; }
