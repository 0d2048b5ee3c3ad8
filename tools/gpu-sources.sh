# Which sources a record of a GPU depends on, for tools/verify-gpu.sh, check-records.sh and counters.sh, which source this in bash. No step of
# the course includes another one (tests/verify_gpu looks), so a change of SpMM's kernels makes no record of SpMV old.

# What can be recorded, of which steps of the course that runs entries, and the digest of their sources as they are now.
declare -A gpu_steps=([spmv]="03;04;05;06" [spmm]="07" [spgemm]="08" [grade]="05" [all]="03;04;05;06;07;08") gpu_digests
gpu_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for kind in "${!gpu_steps[@]}"; do
  gpu_digests[$kind]=$(cmake -DROOT="$gpu_root" -DGPU=ON -DSTEPS="${gpu_steps[$kind]}" -P "$gpu_root/cmake/BuildInfo.cmake" 2>&1)
  [[ ${gpu_digests[$kind]} =~ ^[0-9a-f]{64}$ ]] || { echo "gpu-sources: cmake does not tell the digest of the sources: ${gpu_digests[$kind]}" >&2; exit 2; }
done

# kind_of STEP: which of these a step of tools/verify-gpu.sh is.
kind_of() {
  case $1 in
    d1_* | d2_* | spmv* | ladder_0[3456]) echo spmv ;;
    spmm* | ladder_07 | gather*) echo spmm ;;
    spgemm* | ladder_08 | two_processes_*) echo spgemm ;;
    grade*) echo grade ;;
    *) echo all ;;
  esac
}

# steps_of FILE: the steps of a verify*.json, a line each, after the word "now" where the sources that they depend on are still the same,
# else "older".
steps_of() {
  local step name
  grep -o '{"name": [^}]*}' "$1" | while IFS= read -r step; do
    name=$(cut -d '"' -f 4 <<< "$step")
    case $step in
      *"\"gpu_source_digest\": \"${gpu_digests[$(kind_of "$name")]}\""*) echo "now $step" ;;
      *) echo "older $step" ;;
    esac
  done
}
