#!/usr/bin/env bash
# What the rules of steps 7 and 8 cost: on each matrix of a list, the time by the rules over that of the best choice tried, which
# differs from the rules' in one number (SpGEMM) or in how rows are cut and strips are wide (SpMM). For anyone with an NVIDIA GPU
# and a build of the preset gpu.
#
#   tools/rules-cost.sh [--build DIRECTORY] [--files DIRECTORY] [--limit SECONDS] [--out FILE] [LIST ...]
#
# A LIST is a file of tools/sets, whose name says what is multiplied and whether rules were fitted on it; without any, all four.
# A matrix a line: gen:SPEC, data:NAME, or a file, which is looked for in --files and skipped where it is not there. What takes more
# than --limit seconds (20) is skipped, too, and where A A is computed a pair or a rectangle; the record says so.
# Defaults: build/gpu, results/<gpu>/rules_cost.json. tools/tables.py makes a table of it. Exit code 1: nothing was measured.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tools/rules_cost.py "$@"
