#!/usr/bin/env bash
# The first thing to try: installs what is missing, builds, and shows every step on a matrix that suits this machine; minutes on two
# cores. Ends with a table of the steps, and a report with pictures in out/. With arguments they are those of `stages run`:
#
#   ./run.sh
#   ./run.sh -m my.mtx.gz --op spgemm
#
# A GPU is used where it can be. STAGES_PRESET=cpu leaves it out, STAGES_PRESET=gpu insists on it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
started=$PWD
cd "$here"
tools/install-deps.sh run

# NVIDIA's packages do not put nvcc on the PATH.
command -v nvcc > /dev/null || PATH=$PATH:/usr/local/cuda/bin
# Why there is no GPU to use; nothing: there is one.
no_gpu() {
  local cuda capability
  nvidia-smi -L > /dev/null 2>&1 || { echo "no NVIDIA GPU here"; return; }
  command -v nvcc > /dev/null || { echo "a GPU, but no nvcc (the CUDA toolkit)"; return; }
  cuda=$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  [ "$(printf '12.4\n%s\n' "$cuda" | sort -V | head -n 1)" = 12.4 ] || { echo "nvcc is of CUDA ${cuda:-?}, and 12.4 is needed"; return; }
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | sort -rV | head -n 1)
  [ -z "$capability" ] || [ "$(printf '7.5\n%s\n' "$capability" | sort -V | head -n 1)" = 7.5 ] ||
    echo "the GPU has compute capability $capability, and 7.5 is needed"
}
preset=${STAGES_PRESET:-}
if [ -z "$preset" ]; then
  why=$(no_gpu)
  preset=${why:+cpu}
  preset=${preset:-gpu}
  [ -z "$why" ] || echo "$why: CUDA steps run on the executor, which checks them and times nothing" >&2
fi
build=${STAGES_BUILD:-build}
[[ $build = /* ]] || build=$here/$build
if [ $# -gt 0 ]; then
  tools/build.sh "$preset" stages
  cd "$started"
  exec "$build/$preset/bin/stages" run "$@"
fi

out=${STAGES_OUT:-$here/out}
if ! { mkdir -p "$out" && touch "$out/.writable"; } 2> /dev/null; then
  echo "run: $out cannot be written; name a place that can: STAGES_OUT=/tmp/stages-out" >&2
  exit 2
fi
rm -f "$out/.writable" "$out/results.json" "$out/results.csv" "$out/report.html"

# Something to look at while the rest is built: the first step alone.
if [ ! -x "$build/$preset/bin/stages" ]; then
  tools/build.sh "$preset" 01_cpu_serial
  echo >&2
  "$build/$preset/bin/01_cpu_serial" run --op spmv,spmm 2> /dev/null || true
  echo
fi
tools/build.sh "$preset" stages
stages=$build/$preset/bin/stages
code=0
"$stages" run --json "$out/results.json" --csv "$out/results.csv" || code=$?
if [ ! -s "$out/results.json" ]; then  # the message above says why
  echo "run: it ended with exit code $code and left no results" >&2
  exit "$code"
fi
echo
echo "Everything that was found out: $out/results.json"
echo "One line a result:             $out/results.csv"
# Whichever Python has the packages: one that conda made active, or the distribution's.
python=python3
$python -c 'import matplotlib, jinja2' 2> /dev/null || python=/usr/bin/python3
if ! $python -c 'import matplotlib, jinja2' 2> /dev/null; then
  echo "No report: it needs python3-matplotlib and python3-jinja2"
elif $python "$here/tools/report.py" "$out/results.json" -o "$out/report.html" --program "$stages" > /dev/null; then
  echo "A report for a browser:        $out/report.html"
else
  echo "No report: see the message above"
fi
exit $code
