#!/usr/bin/env bash
# What the rules of steps 7 and 8 cost: on each matrix of a list, the time by the rules over that of the best choice tried, which
# differs from the rules' in one number or a form less (SpGEMM) or in how rows are cut and strips are wide (SpMM). And what each form
# of step 8 is worth: the time without it. For anyone with an NVIDIA GPU and a build of the preset gpu.
#
#   tools/rules-cost.sh [--build DIRECTORY] [--files DIRECTORY] [--n-cols N,...] [--filter REGEX] [--budget SECONDS] [--jobs N] [--out FILE] [LIST ...]
#
# A LIST is a file of tools/sets, whose name says what is multiplied and whether rules were fitted on it; without any, all four.
# A matrix a line: gen:SPEC, data:NAME, or a file, which is looked for in --files and skipped where it is not there. A rectangle is
# multiplied by its transpose. All matrices together get --budget seconds (360), in equal parts: what one does not need is the
# others', and the largest, gen:twin:, come last. Choices that were not timed in that time are left out, and their number is in
# the record, as is why a matrix was skipped.
# With --filter only those choices are timed whose names match, beside the rules'.
# Matrices are made side by side (--jobs, 8 at most by default), and timed one after the other.
# Defaults: build/gpu, N = 16,32,128,256, results/<gpu>/rules_cost.json. tools/tables.py makes tables of it. Exit code 1: nothing was
# measured.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tools/rules_cost.py "$@"
