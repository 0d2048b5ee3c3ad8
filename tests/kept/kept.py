#!/usr/bin/env python3
"""Runs a test program, unless the same test of the same sources passed on this machine before.

usage: kept.py NAME --sources PATH... [--facts TEXT] [--notes FILE] -- PROGRAM [ARGUMENT...]

A pass is kept under what it depends on: the sources below each PATH (comments count, too), TEXT (the compiler and its flags), the
command, the STAGES_* and GTEST_* variables, and the shared libraries of PROGRAM. It lies in STAGES_KEPT (default: sparse-stages in
XDG_CACHE_HOME or ~/.cache), and so serves other checkouts, too; STAGES_KEPT=none runs everything. FILE is what PROGRAM writes beside:
it is kept with the pass, and put back. Where a source is newer than PROGRAM, which was then not built from it, the test runs and
nothing is kept.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {".cpp", ".hpp", ".cu", ".c", ".cmake", ".txt", ".in", ".tsv", ".py"}
# They say where something lies, not what is tested.
PLACES = {"STAGES_KEPT", "STAGES_REACHED", "STAGES_BUILD", "STAGES_DATA", "STAGES_MM_CONFORMANCE"}


def files_below(place):
    """All sources below a directory but those of exercises, which no program of the tests holds; a file is itself."""
    if place.is_file():
        return [place]
    return sorted(p for p in place.rglob("*") if p.suffix in SOURCES and "exercises" not in p.parts)


def programs_of(command):
    return [word for word in command if os.path.isfile(word) and os.access(word, os.X_OK)]


def libraries(program):
    """Name, size and date of each shared library that `program` loads."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for word in sorted(w for w in out.split() if w.startswith("/")):
        stat = os.stat(word)
        yield f"{os.path.basename(os.path.realpath(word))} {stat.st_size} {stat.st_mtime_ns}"


def key_of(files, facts, command, environment):
    """`files` are pairs of a name and a path."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    lines = [facts, *(os.path.basename(word) if os.path.isabs(word) else word for word in command)]
    lines += [f"{name}={environment[name]}" for name in sorted(environment)
              if name.startswith(("STAGES_", "GTEST_")) and name not in PLACES]
    for program in programs_of(command):
        lines += libraries(program)
    digest.update("\n".join(lines).encode())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--sources", nargs="+", required=True)
    parser.add_argument("--facts", default="")
    parser.add_argument("--notes", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("command", nargs="+")
    words = parser.parse_args()
    command = words.command

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = os.environ.get("STAGES_KEPT") or os.path.join(cache, "sparse-stages")
    if place == "none":
        sys.exit(subprocess.run(command).returncode)

    sources = []
    for path in words.sources:
        below = files_below(words.root / path)
        if not below:
            sys.exit(f"kept: no sources in {words.root / path}; --sources names folders and files below {words.root}")
        sources += below
    files = [(str(file.relative_to(words.root)), file) for file in sources]
    key = key_of(files, words.facts, command, os.environ)

    kept = pathlib.Path(place) / words.name
    stamp, notes = kept / "passed", kept / "notes"
    passed = stamp.read_text().splitlines() if stamp.exists() else []
    if passed[:1] == [key] and (not words.notes or notes.exists()):
        if words.notes:
            shutil.copy(notes, words.notes)
        print(f"kept: {words.name} passed with the same sources on {passed[1]}; STAGES_KEPT=none runs it again")
        return
    stamp.unlink(missing_ok=True)
    built = min((os.stat(program).st_mtime_ns for program in programs_of(command)[-1:]), default=0)
    code = subprocess.run(command).returncode
    if code == 0 and all(file.stat().st_mtime_ns <= built for file in sources):
        kept.mkdir(parents=True, exist_ok=True)
        if words.notes:
            shutil.copy(words.notes, notes)
        stamp.write_text(f"{key}\n{datetime.datetime.now().isoformat(' ', 'minutes')}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
