#!/usr/bin/env python3
"""Makes the files that students work in from the masters in STAGE/exercises.

A master holds the solution and what stands there for the student, between three comments that are lines of their own:

    // SOLUTION
    sum += a.values[p] * x[a.col_idx[p]];
    // STUDENT
    // Your code: ...
    // END

so a task and its solution are one file, and cannot drift apart.
"""

import argparse
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PART = re.compile(r"^[ \t]*// SOLUTION\n(.*?)^[ \t]*// STUDENT\n(.*?)^[ \t]*// END\n", re.DOTALL | re.MULTILINE)
HINT = re.compile(r"^// Hint: .*\n(?://   .*\n)*", re.MULTILINE)  # stages grade --hint shows them
MARK = re.compile(r"^\s*// (SOLUTION|STUDENT|END)$", re.MULTILINE)


def fail(message):
    print(f"exercises: error: {message}", file=sys.stderr)
    sys.exit(2)


def masters(stage):
    """The masters of a stage, sorted."""
    return sorted(p for p in (ROOT / stage / "exercises").glob("*") if p.suffix in (".cpp", ".cu"))


def sets():
    """The directories with exercises: the steps that have some, and the micro-exercises."""
    return sorted(name for name in (p.parent.name for p in ROOT.glob("*/exercises")) if re.match(r"\d\d_|micro$", name) and masters(name))


def table(stage):
    """The micro-exercises for a document: a line for each step."""
    lines = ["| step | exercises |", "|---|---|"]
    for step, files in itertools.groupby(masters(stage), lambda master: re.search(r"// Step: (\d\d)", master.read_text(encoding="utf-8"))[1]):
        lines.append(f"| {int(step)} | {', '.join(f'`{master.name}`' for master in files)} |")
    return "\n".join(lines)


def made(master, solution):
    """The student's file of a master, or its solution."""
    text = master.read_text(encoding="utf-8").replace("\n//\n// Hint: ", "\n// Hint: ")
    text = HINT.sub("", text)
    out, count = PART.subn(lambda m: m.group(1 if solution else 2), text)
    left = MARK.search(out)
    if count == 0 or left:
        fail(f"{master}: {'a mark is out of place: ' + left.group().strip() if left else 'has no // SOLUTION, // STUDENT, // END'}; each part needs all three, in this order")
    return out


def main():
    stages = sets()
    parser = argparse.ArgumentParser(prog="exercises", usage="tools/exercises.py [STAGE ...] [-o DIR] [--force]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"without it all: {', '.join(stages)}")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="DIR", help="directory for the files, for several stages with one in it for each; without it STAGE/exercises/mine")
    parser.add_argument("--solutions", action="store_true", help="make the solutions instead; needs -o")
    parser.add_argument("--table", action="store_true", help="print the table of the micro-exercises for docs/exercises.md instead")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    options = parser.parse_args()
    if options.table:
        print(table("micro"))
        return
    if options.solutions and not options.output:
        fail("--solutions needs -o DIR, so that no file of yours is replaced")
    chosen = [named(stage.rstrip("/"), stages) for stage in options.stages] or stages
    try:
        write(chosen, options)
    except OSError as error:
        fail(f"{error.filename}: cannot be written: {error.strerror}; give another directory by -o")


def named(wanted, stages):
    """The stage of a name or a number."""
    found = [stage for stage in stages if wanted in (stage, stage.split("_")[0])]
    return found[0] if found else fail(f"'{wanted}' is no stage with exercises; there are {', '.join(stages)}")


def write(chosen, options):
    for stage in chosen:
        directory = ROOT / stage / "exercises" / "mine"
        if options.output:  # stages may have exercises of the same name
            directory = options.output / stage if len(chosen) > 1 else options.output
        directory.mkdir(parents=True, exist_ok=True)
        for master in masters(stage):
            path = directory / master.name
            if path.exists() and not options.force:
                print(f"kept:    {path} (--force replaces it)")
                continue
            path.write_text(made(master, options.solutions), encoding="utf-8")
            print(f"written: {path}")


if __name__ == "__main__":
    main()
