#!/usr/bin/env bash
# The main job: installs what is missing, builds, and runs every step on the built-in matrices (about two minutes). Ends
# with a table on the screen, and a report with pictures and everything that was found out in out/. Arguments replace those
# of the run:
#
#   ./run.sh
#   ./run.sh -m my.mtx.gz --op spgemm
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
started=$PWD
cd "$here"
tools/install-deps.sh run
preset=cpu
if command -v nvcc > /dev/null && nvidia-smi -L > /dev/null 2>&1; then
  preset=gpu
else
  echo "no GPU with nvcc here: CUDA steps run on the executor, which checks them and times nothing" >&2
fi
tools/build.sh $preset stages
stages=$here/build/$preset/bin/stages
cd "$started"
if [ $# -gt 0 ]; then
  exec "$stages" run "$@"
fi
mkdir -p "$here/out"
code=0
"$stages" run --quick --time-budget 0.1 --max-noise 5 --max-work 1e8 \
  --json "$here/out/results.json" --csv "$here/out/results.csv" || code=$?
[ $code -eq 2 ] && exit 2  # an error ended the run; it has said why
echo
echo "Everything that was found out: $here/out/results.json"
echo "One line a result:             $here/out/results.csv"
# The system's own Python before others on the PATH: it is the one that has the distribution's packages.
python=/usr/bin/python3
[ -x $python ] || python=python3
if ! $python -c 'import matplotlib, jinja2' 2> /dev/null; then
  echo "No report: it needs python3-matplotlib and python3-jinja2"
elif $python "$here/tools/report.py" "$here/out/results.json" -o "$here/out/report.html" --program "$stages" > /dev/null; then
  echo "A report for a browser:        $here/out/report.html"
else
  echo "No report: see the message above"
fi
exit $code
