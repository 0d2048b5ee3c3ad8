#!/usr/bin/env bash
# Makes a lab for a course's tool: what its students start from, and what grades what they hand in. No solutions are in it.
#
#   tools/make-autograder.sh --gradescope FILE.zip EXERCISE...     a zip to upload to Gradescope
#   tools/make-autograder.sh --classroom50 DIR EXERCISE...         a folder for Classroom 50; its README says what goes where
#
# EXERCISE: 05_cuda_csr/exercises/row_lengths.cu, 05/row_lengths.cu, or 05: all exercises of that step. Both options may be given at
# once. What is there is kept: --force replaces it. Exit code 2: bad usage.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
fail() {
  echo "make-autograder: $*" >&2
  exit 2
}
usage="tools/make-autograder.sh [--gradescope FILE.zip] [--classroom50 DIR] [--force] EXERCISE..."
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac }

zip="" folder="" force=false wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --gradescope | --classroom50)
      [ $# -ge 2 ] && [[ $2 != -* ]] && [ -n "$2" ] || fail "$1 needs a name; usage: $usage"
      if [ "$1" = --gradescope ]; then zip=$(absolute "$2"); else folder=$(absolute "$2"); fi
      shift
      ;;
    --force) force=true ;;
    -*) fail "no option $1; usage: $usage" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
[ -n "$zip$folder" ] || fail "say for what: --gradescope FILE.zip or --classroom50 DIR; usage: $usage"
[ ${#wanted[@]} -gt 0 ] || fail "name an exercise, such as 05_cuda_csr/row_lengths.cu; usage: $usage"
[ -z "$zip" ] || [[ $zip == *.zip ]] || fail "$zip: Gradescope takes a zip; name a file that ends in .zip"
command -v python3 > /dev/null || fail "there is no python3; install it (Debian: python3)"

# What may not be replaced, and what cannot be written, is said before anything is made.
free() {
  [ -d "$(dirname "$1")" ] || fail "$1: there is no directory $(dirname "$1"); make it, or choose another place"
  [ ! -e "$1" ] || $force || fail "$1: is there already; name another, or give --force"
}
[ -z "$zip" ] || { free "$zip"; [ ! -d "$zip" ] || fail "$zip: is a directory; name a file"; }
[ -z "$folder" ] || { free "$folder"; [ ! -e "$folder" ] || [ -d "$folder" ] || fail "$folder: is a file; name a directory"; }
if [ -n "$folder" ]; then
  folder=$(realpath -m "$folder")
  # Somebody's home is a directory, too.
  [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || [ -e "$folder/autograder/exercises.json" ] \
    || fail "$folder: holds other things than a lab, which --force would delete; name another"
  [[ -z "$zip" || $(realpath -m "$zip") != "$folder"/* ]] || fail "$zip: lies in $folder, which is replaced; name another place"
fi

# The masters of the exercises, which the steps hold, and micro-exercises a directory of their own.
found=$(python3 tools/exercises.py --masters "${wanted[@]}" 2>&1) || fail "${found#exercises: error: }"
mapfile -t masters <<< "$found"
mapfile -t steps < <(printf '%s\n' "${masters[@]%%/*}" | sort -u)

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
trap 'exit 130' INT TERM

# The exercises as students get them, by step.
for step in "${steps[@]}"; do
  python3 tools/exercises.py "$step" -o "$made/all/$step" > "$made/log" || fail "tools/exercises.py $step: $(tail -n 1 "$made/log")"
done
mkdir "$made/tasks" "$made/project" "$made/lab"
for master in "${masters[@]}"; do
  mkdir -p "$made/tasks/${master%%/*}"
  cp "$made/all/${master%%/*}/${master##*/}" "$made/tasks/${master%%/*}/"
done

# The project, as far as grading needs it: what is tracked of the code that all steps share and of these steps. What a master
# is to the judge, its task is as well: a head, and headers that it includes, among them the frames of micro/. A head may refer to
# another step.
mapfile -t needed < <({ printf '%s\n' "${steps[@]}"; sed -n 's,^// Reference: \([^/]*\)/.*,\1,p' "${masters[@]}"; } | sort -u)
parts=(CMakeLists.txt CMakePresets.json LICENSE cmake common data/*.tsv micro "${needed[@]}")
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
  git ls-files -z -- "${parts[@]}" > "$made/files"
else
  find "${parts[@]}" -type f -print0 > "$made/files"
fi
grep -zv -e '/exercises/' -e '\.md$' -e '__pycache__' "$made/files" | tar --null -T - -c | tar -x -C "$made/project"
for step in "${steps[@]}"; do
  mkdir -p "$made/project/$step/exercises"
  cp "$made/tasks/$step"/* "$made/project/$step/exercises/"
done

# What grades.
packages="g++ cmake ninja-build python3 libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev bubblewrap"
if [[ " ${masters[*]} " == *.cu\ * ]]; then packages+=" libboost-context-dev"; fi
if [ -d "$made/project/02_mpi" ] || grep -q '^// Ranks: ' "${masters[@]}"; then packages+=" libopenmpi-dev openmpi-bin"; fi
echo "$packages" > "$made/lab/packages.txt"
tar -C "$made/project" --sort=name --mtime='2026-01-01 00:00Z' --owner=0 --group=0 --numeric-owner -c . | gzip -9n > "$made/lab/stages.tar.gz"
{
  printf '{"exercises": ['
  printf '"%s",' "${masters[@]}" | sed 's,/exercises/,/,g; s/,$//'
  printf ']}\n'
} > "$made/lab/exercises.json"
cp tools/autograder/setup.sh tools/autograder/grading.py "$made/lab/"

if [ -n "$zip" ]; then
  cp -r "$made/lab" "$made/gradescope"
  cp tools/autograder/run_autograder "$made/gradescope/"
  chmod 755 "$made/gradescope/setup.sh" "$made/gradescope/run_autograder"
  (cd "$made/gradescope" && python3 -m zipfile -c "$made/lab.zip" ./*) || fail "$zip: could not be made"
  cp "$made/lab.zip" "$zip.part" 2> /dev/null && mv "$zip.part" "$zip" || { rm -f "$zip.part"; fail "$zip: cannot be written; choose another place"; }
  echo "written: $zip ($(($(stat -c %s "$zip") / 1024)) KiB): ${#masters[@]} exercise(s), 100 points each"
fi

if [ -n "$folder" ]; then
  out=$made/classroom50
  mkdir -p "$out/autograder"
  cp -r "$made/tasks" "$out/template"
  if [ ${#steps[@]} -eq 1 ]; then  # one step needs no directory
    mv "$out/template/${steps[0]}"/* "$out/template/"
    rmdir "$out/template/${steps[0]}"
  fi
  cp "$made/lab"/* tools/autograder/autograder.py "$out/autograder/"
  mkdir "$out/template/grader"
  cp "$made/lab"/{setup.sh,packages.txt,stages.tar.gz} "$out/template/grader/"
  title=${steps[*]}
  files="" first=""
  for master in "${masters[@]}"; do
    file=${master##*/}
    [ ${#steps[@]} -eq 1 ] || file=${master%%/*}/$file
    first=${first:-$file}
    files+="- \`$file\`: $(sed -n 's,^// Task: ,,p' "$master" | head -n 1)"$'\n'
  done
  fill() {
    python3 - "$1" "${title// /, }" "$files" "${masters[0]%%/*}" "$first" << 'PY'
import pathlib, sys
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
for name, value in zip(("@TITLE@", "@FILES@", "@STEP@", "@FILE@"), sys.argv[2:]):
    text = text.replace(name, value)
print(text, end="")
PY
  }
  fill tools/autograder/student.md > "$out/template/README.md"
  fill tools/autograder/teacher.md > "$out/README.md"
  printf '/build/\n/grader/stages/\n' > "$out/template/.gitignore"
  printf '{"runs-on": "ubuntu-latest", "apt": [%s]}\n' "$(printf '"%s", ' $packages | sed 's/, $//')" > "$out/runtime.json"
  printf 'FROM docker.io/library/debian:12\nRUN apt-get update && apt-get install -y --no-install-recommends git ca-certificates python3\nCOPY autograder /opt/lab\nRUN bash /opt/lab/setup.sh /opt/stages-autograder\n' > "$out/Containerfile"
  cp -r "$out" "$folder.part" 2> /dev/null || { rm -rf "$folder.part"; fail "$folder: cannot be written; choose another place"; }
  rm -rf "$folder"
  mv "$folder.part" "$folder"
  echo "written: $folder: ${#masters[@]} exercise(s), 100 points each; $folder/README.md says what goes where"
fi
