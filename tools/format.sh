#!/usr/bin/env bash
# Formats our C++ and CUDA sources; with --check only says which are not formatted, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -r clang-format "${mode[@]}"
