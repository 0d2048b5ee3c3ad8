#!/usr/bin/env bash
# Does the lens count what the hardware counts? Two halves, for two machines if need be: one has a GPU and ncu (Nsight Compute), the
# other the executor.
#
#   tools/lens-agreement.sh --ncu [PROGRAM [DIRECTORY]]     what ncu counts: DIRECTORY/lens_agreement_ncu.json
#   tools/lens-agreement.sh --lens [PROGRAM [DIRECTORY]]    what the lens counts of the same, and both beside each
#                                                           other: DIRECTORY/lens_agreement.json
#
# Defaults: build/gpu/bin/stages and results/<gpu> for --ncu; build/cpu/bin/stages and results/nvidia-h100-80gb-hbm3 for --lens.
# tools/tables.py puts the record into docs/lens.md.
#
# All CUDA entries for one GPU are counted, each on three matrices (tools/agreement.py names them), one product each. ncu is asked
# as in tools/counters.sh: one process a case, which shows one product to the profiler (STAGES_PROFILE). Exit code 0: all cases were
# counted or do not fit this GPU; 1: some were not, and the record says which and why.
#
# STAGES_COUNTERS_LIMIT=60 is the time in seconds for one case, STAGES_AGREEMENT_LIMIT=360 that for all cases of --ncu: what is not
# reached in it is recorded as such. The same command then goes on where the record in DIRECTORY ends, also after it was killed: what
# it has counted of entries of a step whose GPU sources are the same, with the same GPU and ncu, is kept. To count all anew, remove the
# record first.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
half=${1:-}
case $half in --ncu | --lens) shift ;; *) echo "usage: tools/lens-agreement.sh --ncu|--lens [PROGRAM [DIRECTORY]]" >&2; exit 2 ;; esac
preset=gpu
[ "$half" = --ncu ] || preset=cpu
program=${1:-$root/build/$preset/bin/stages}
[ -x "$program" ] || { echo "lens-agreement: there is no program $program; build it (tools/build.sh $preset stages) or name another" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
agreement() { python3 "$root/tools/agreement.py" "$@"; }
digest() { cmake -DROOT="$root" "$@" -P "$root/cmake/BuildInfo.cmake" 2>&1; }

if [ "$half" = --lens ]; then
  out=${2:-$root/results/nvidia-h100-80gb-hbm3}
  [ -r "$out/lens_agreement_ncu.json" ] || { echo "lens-agreement: there is no $out/lens_agreement_ncu.json; make it where a GPU is: tools/lens-agreement.sh --ncu" >&2; exit 2; }
  agreement merge "$out/lens_agreement_ncu.json" "$program" "$work" "$out/lens_agreement.json" "source_digest=$(digest)" \
    "date=$(date -u +%FT%TZ)" "command=tools/lens-agreement.sh --lens"
  exit
fi

command -v ncu > /dev/null || { echo "lens-agreement: there is no ncu (Nsight Compute, part of the CUDA toolkit) on the PATH" >&2; exit 2; }
command -v nvidia-smi > /dev/null || { echo "lens-agreement: no nvidia-smi: this machine has no NVIDIA driver" >&2; exit 2; }
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
[ -n "$gpu" ] || { echo "lens-agreement: nvidia-smi finds no GPU" >&2; exit 2; }
out=${2:-$root/results/$(tr 'A-Z ' 'a-z-' <<< "$gpu")}
mkdir -p "$out"
record=$out/lens_agreement_ncu.json
digests=
for step in 03 04 05 06 07 08; do digests+=${digests:+,}$step:$(digest -DGPU=ON -DSTEPS=$step); done
agreement begin "$record" "gpu=$gpu" "driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" \
  "ncu=$(ncu --version | grep -i version | tail -n 1)" "source_digest=$(digest)" "gpu_source_digests=$digests" \
  "date=$(date -u +%FT%TZ)" "command=tools/lens-agreement.sh --ncu" || exit 2
known() { ncu --query-metrics; ncu --query-metrics-collection source --query-metrics; }  # counters, and what the machine code is patched for
metrics=$(known 2> /dev/null | agreement choose "$record") || exit 2
"$program" list --json > "$work/list.json" || exit 2
agreement cases "$record" "$work/list.json" > "$work/cases.txt" || exit 2

while read -r operation matrix entry; do
  [ $SECONDS -lt "${STAGES_AGREEMENT_LIMIT:-360}" ] || break
  code=0
  rm -rf "$work/case"
  mkdir "$work/case"
  STAGES_PROFILE=1 timeout -k 5 "${STAGES_COUNTERS_LIMIT:-60}" ncu --profile-from-start off --clock-control none --cache-control none \
    --csv --page raw --print-units base --print-metric-instances details --metrics "$metrics" --log-file "$work/case/ncu.csv" \
    "$program" run -m "$matrix" --op "$operation" --filter "^$entry\$" --check once --time-budget 0.001 --max-work 1e13 \
    --json "$work/case/run.json" > "$work/case/said.txt" 2>&1 < /dev/null || code=$?
  agreement add "$record" "$operation" "$matrix" "$entry" "$code" "$work/case" || exit 2
done < "$work/cases.txt"
agreement end "$record" || { echo "lens-agreement: NOT all cases were counted: $record" >&2; exit 1; }
echo "written: $record" >&2
