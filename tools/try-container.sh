#!/usr/bin/env bash
# Builds the Containerfile and uses the image, without pulling one: debootstrap makes the Debian that it starts from.
# For machines that reach a Debian mirror and no registry of images. It needs root, debootstrap, podman, 5 GB of disk, and
# as long as a build takes.
#
#   tools/try-container.sh [TARGET ...]     the targets to build; without them all
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
  echo "try-container: only root may make a Debian; run it as root, or build the image where one can be pulled" >&2
  exit 2
fi
for program in debootstrap podman buildah; do
  command -v $program > /dev/null || { echo "try-container: there is no $program; install it (Debian: $program)" >&2; exit 2; }
done
step() { echo "== $*" >&2; }
base=localhost/stages-debian:12
image=localhost/sparse-stages-try
place=$(mktemp -d)
trap 'rm -rf "$place"; buildah rm stages-try > /dev/null 2>&1 || true' EXIT

if ! podman image exists $base; then
  step "a Debian"
  debootstrap --variant=minbase bookworm "$place/root" > "$place/log" 2>&1 || { tail -n 20 "$place/log" >&2; exit 1; }
  tar -C "$place/root" -c . | podman import - $base > /dev/null
fi

# No runtime, no network of its own: that works inside other sandboxes, too.
step "the image"
podman build --pull=never --isolation=chroot --network=host --build-arg BASE=$base --build-arg TARGETS="$*" -t $image . >&2

step "what is in it"
buildah from --pull=never --name stages-try $image > /dev/null
inside() { buildah run --isolation=chroot stages-try "$@"; }
[ "$(inside id -u)" -ne 0 ] ||
  { echo "try-container: the image's user is root" >&2; exit 1; }
echo "the user is $(inside id -un)" >&2
inside stages --version >&2
inside sh -c '! grep -q march=native build/*/build.ninja' || {
  echo "try-container: the image was built for this processor alone" >&2
  exit 1
}
step "./run.sh in it"
inside ./run.sh -m gen:fixed:n=256,zeros=0.8 --op spmv --stage 01,03 --time-budget 0.01
step "several ranks in it"
inside stages run -m gen:rmat:scale=7,edge_factor=4 --op spgemm --stage 02 --ranks 2 --quick --time-budget 0.005 > /dev/null
step "an exercise in it"
inside tools/exercises.py 03_cuda_naive --solutions -o /tmp/solutions > /dev/null
inside stages grade 03_cuda_naive /tmp/solutions/dense_transposed.cu
echo "the Containerfile builds, and its image works" >&2
