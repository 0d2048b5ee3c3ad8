#!/usr/bin/env bash
# Says which records of GPUs under results/ are older than the GPU sources, by the digest in each verify*.json. That is no
# error: records are made where a GPU is, by tools/verify-gpu.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
now=$(cmake -DROOT="$PWD" -DGPU=ON -P cmake/BuildInfo.cmake 2>&1)
for record in results/*/verify*.json; do
  [ -e "$record" ] || { echo "no record of a GPU under results/: tools/verify-gpu.sh makes one"; break; }
  then=$(sed -n 's/.*"gpu_source_digest": "\([0-9a-f]*\)".*/\1/p' "$record")
  failed=$(grep -o '"name": "[^"]*", "passed": false' "$record" | cut -d '"' -f 4 | paste -sd ' ') || true
  if [ "$then" = "$now" ]; then
    echo "$record: of these GPU sources${failed:+; FAILED: $failed}"
  else
    echo "$record: OLDER than the GPU sources; run tools/verify-gpu.sh on that GPU"
  fi
done
