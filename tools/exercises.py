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


def named(wanted):
    """The stage of a name or a number; None: there is none."""
    return next((stage for stage in sets() if wanted in (stage, stage.split("_")[0])), None)


def chosen(names, fail):
    """The exercises of these names, as STAGE/FILE: 05_cuda_csr/exercises/row_lengths.cu, 05/row_lengths.cu, or 05, all of that stage."""
    found = []
    for name in names:
        wanted, _, file = name.rstrip("/").replace("/exercises/", "/").partition("/")
        stage = named(wanted) or fail(f"'{name}': no step with exercises of that name; there are {', '.join(sets())}")
        files = [master.name for master in masters(stage)]
        if file and file not in files:
            fail(f"'{name}': no exercise of that name; {stage} has {', '.join(files)}")
        found += [f"{stage}/{one}" for one in ([file] if file else files)]
    return list(dict.fromkeys(found))


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
    parser.add_argument("--masters", action="store_true", help="print the masters of STAGE/FILE ..., or of all files of a STAGE, instead")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    options = parser.parse_args()
    if options.table:
        return print(table("micro"))
    if options.masters:
        return print(*(exercise.replace("/", "/exercises/") for exercise in chosen(options.stages, fail)), sep="\n")
    if options.solutions and not options.output:
        fail("--solutions needs -o DIR, so that no file of yours is replaced")
    wanted = [named(stage.rstrip("/")) or fail(f"'{stage}' is no stage with exercises; there are {', '.join(stages)}") for stage in options.stages]
    try:
        write(wanted or stages, options)
    except OSError as error:
        fail(f"{error.filename}: cannot be written: {error.strerror}; give another directory by -o")


def write(stages, options):
    for stage in stages:
        directory = ROOT / stage / "exercises" / "mine"
        if options.output:  # stages may have exercises of the same name
            directory = options.output / stage if len(stages) > 1 else options.output
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
