#!/usr/bin/env bash
# Says which records of GPUs under results/ are of the GPU sources as they are, which are older, and which were not green, by the
# steps in each verify*.json. An older one is no error: records are made where a GPU is, by tools/verify-gpu.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/gpu-sources.sh

for record in results/*/verify*.json; do
  [ -e "$record" ] || { echo "no record of a GPU under results/: tools/verify-gpu.sh makes one"; break; }
  now='' older='' failed=''
  while read -r age step; do
    name=$(cut -d '"' -f 4 <<< "$step")
    if [ "$age" = older ]; then older+=" $name"; elif [[ $step == *'"passed": false'* ]]; then failed+=" $name"; else now+=" $name"; fi
  done < <(steps_of "$record")
  echo "$record${now:+$'\n'  of these GPU sources:$now}${older:+$'\n'  OLDER, to be made anew by tools/verify-gpu.sh:$older}${failed:+$'\n'  FAILED:$failed}"
done
