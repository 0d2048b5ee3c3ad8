#!/usr/bin/env bash
# Formats our C++ and CUDA sources; with --check only says which are not formatted, and fails if there are any. Lines that hold only a
# comment are not broken (ReflowComments: false): those wider than 112 characters are named, and are an error in both cases. Code ends
# at 110; the two more spare a full stop a line of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.inc' | xargs -r clang-format "${mode[@]}"
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.inc' | xargs -r awk '
  /^[ \t]*\/\// && length > 112 { print FILENAME ":" FNR ": a comment of " length " characters; break it at 112"; wide = 1 }
  END { exit wide }' >&2 || exit 1
