#!/usr/bin/env bash
# Runs a lab as Gradescope would: a zip of tools/make-autograder.sh in a Debian with nothing else in it, by root, with the rights
# that a container has. Solutions must get all points, tasks not, attacks none; and a student's program may read neither the sources
# nor the steps. Then the same lab by what Classroom 50 would call. It needs root, debootstrap, a network, 2 GB of disk, and as long
# as a build takes; .ci/run does not run it.
#
#   tools/try-autograder.sh [DIRECTORY]      DIRECTORY: a bare Debian or Ubuntu that is there; without it debootstrap makes one
set -euo pipefail
cd "$(dirname "$0")/.."
fail() {
  echo "try-autograder: $*" >&2
  exit "${code:-1}"
}
code=2
[ "$(id -u)" -eq 0 ] || fail "only root may make a Debian; run it as root"
base=${1:-}
if [ -n "$base" ]; then
  [ -x "$base/usr/bin/apt-get" ] || fail "$base: is no Debian; name the directory of one, or none"
else
  command -v debootstrap > /dev/null || fail "there is no debootstrap; install it (Debian: debootstrap)"
fi
code=1
step() { echo "== $*" >&2; }
place=$(mktemp -d)
root=$place/root
trap 'rm -rf --one-file-system "$place"' EXIT

step "a Debian"
if [ -n "$base" ]; then cp -a "$base" "$root"; else
  debootstrap --variant=minbase bookworm "$root" > "$place/log" 2>&1 || { tail -n 20 "$place/log" >&2; exit 1; }
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"

# inside COMMAND...: as in a container: processes of its own, and root without the rights to mount or to make namespaces.
kept=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
inside() {
  unshare --mount --pid --fork bash -c 'mount --make-rprivate / && mount -t proc proc "$1/proc" && mkdir -p "$1/dev/shm" &&
    mount -t tmpfs tmpfs "$1/dev/shm" && root=$1 && shift && exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      HOME=/root "$@"' - "$root" "${environment[@]}" setpriv --bounding-set="-all,+${kept//,/,+}" "$@"
}
environment=()

step "the zip"
lab=(01_cpu_serial/csr_spmv.cpp 05_cuda_csr/row_lengths.cu)
tools/make-autograder.sh --gradescope "$place/lab.zip" --classroom50 "$place/classroom50" "${lab[@]}" >&2
mkdir -p "$root/autograder/results" "$root/autograder/submission"
python3 -m zipfile -e "$place/lab.zip" "$root/autograder/source"
cp "$root/autograder/source/run_autograder" "$root/autograder/"  # what Gradescope does with it
chmod +x "$root/autograder/run_autograder" "$root/autograder/source/setup.sh"

step "setup.sh"
start=$SECONDS
inside bash -c 'apt-get -q update > /dev/null && bash /autograder/source/setup.sh && rm -rf /var/lib/apt/lists/* /tmp/* /var/tmp/*' >&2
echo "setup: $((SECONDS - start)) s" >&2
# A layer of an image keeps whole seconds.
find "$root/autograder" -type f -printf '%T@ %p\0' | while IFS= read -r -d '' line; do touch -d "@${line%%.*}" "${line#* }"; done

step "what a student's program may read"
inside bash -c 'setpriv --reuid 61000 --regid 61000 --clear-groups find /autograder -type f -readable 2> /dev/null || true' > "$place/readable"
if grep -E '/source/|/bin/|stage_[0-9]|/submission/|/results/' "$place/readable"; then fail "students' programs can read these"; fi
[ -s "$place/readable" ] || fail "students' programs can read nothing, and so cannot be linked"

python3 tools/exercises.py 01 --solutions -o "$place/solution/01_cpu_serial" > /dev/null
python3 tools/exercises.py 05 --solutions -o "$place/solution/05_cuda_csr" > /dev/null
python3 tools/exercises.py 01 -o "$place/task/01_cpu_serial" > /dev/null
python3 tools/exercises.py 05 -o "$place/task/05_cuda_csr" > /dev/null

# graded KIND: hands in that kind of files, and prints the points of both, and of all.
graded() {
  rm -rf "$root/autograder/submission" "$root/autograder/results/results.json"
  mkdir "$root/autograder/submission"
  case $1 in
    solution | task) for file in "${lab[@]}"; do cp "$place/$1/$file" "$root/autograder/submission/"; done ;;
    attack)
      cp "$place/solution/${lab[0]}" "$root/autograder/submission/"
      { cat << 'CPP' && cat "$place/solution/${lab[1]}"; } > "$root/autograder/submission/row_lengths.cu"
// The solution, which ends at once unless it can read or write what it must not.
#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>
static const bool found = [] {
  for (const char* const name : {"/autograder/source/stages.tar.gz", "/autograder/source/stages/CMakeLists.txt", "/autograder/stages-build/bin/stages",
                                 "/autograder/submission/csr_spmv.cpp"})
    if (open(name, O_RDONLY) >= 0) return true;
  for (const char* const name : {"/autograder/results/results.json", "/autograder/run_autograder"})
    if (open(name, O_WRONLY | O_CREAT, 0666) >= 0) return true;
  _exit(3);
}();
CPP
      ;;
    nothing) ;;
  esac
  start=$SECONDS
  inside /autograder/run_autograder > "$place/said" 2>&1 || { cat "$place/said" >&2; fail "$1: run_autograder failed"; }
  echo "$1: $((SECONDS - start)) s; $(tail -n 1 "$place/said")" >&2
  python3 - "$root/autograder/results/results.json" "${lab[@]##*/}" << 'PY'
import json, sys
found = json.load(open(sys.argv[1]))
points = [next(t["score"] for t in found["tests"] if t["name"].endswith(f"/{name}")) for name in sys.argv[2:]]
assert "does not compile" not in json.dumps(found), found
assert sum(points) == found["score"] == sum(t.get("score", 0) for t in found["tests"]), found
print(*points)
PY
}

step "hand-ins"
[ "$(graded solution)" = "100 100" ] || fail "the solutions do not get all points: $(cat "$root/autograder/results/results.json")"
read -r -a points <<< "$(graded task)"
[ "${points[0]}" -lt 60 ] && [ "${points[1]}" -lt 60 ] || fail "tasks get ${points[*]} points"
[ "$(graded nothing)" = "0 0" ] || fail "who hands in nothing gets points"
read -r -a points <<< "$(graded attack)"
[ "${points[1]}" = 0 ] || fail "who reads or writes what he must not gets points: $(cat "$root/autograder/results/results.json")"
grep -q 'ends the program, with exit code 3' "$root/autograder/results/results.json" || fail "the attack was none: $(cat "$root/autograder/results/results.json")"

step "the same for Classroom 50"
cp -r "$place/classroom50/autograder" "$root/opt/lab"
ln -s /autograder/stages-build "$root/opt/stages-autograder"
mkdir "$root/checkout"
for file in "${lab[@]}"; do cp "$place/solution/$file" "$root/checkout/"; done
environment=(CLASSROOM=hpc ASSIGNMENT=lab OWNER=ada ASSIGNMENT_TYPE=individual SUBMISSION_TAG=submit/1 COMMIT_URL=https://example.org/1 RELEASE_URL=https://example.org/2)
inside bash -c 'cd /checkout && python3 /opt/lab/autograder.py' > "$place/said" 2>&1 || { cat "$place/said" >&2; fail "autograder.py failed"; }
grep -q '"score": 200' "$root/checkout/result.json" || fail "the solutions do not get all points: $(cat "$root/checkout/result.json")"
echo "the lab works: on Gradescope, as far as can be seen here, and for Classroom 50" >&2
