#!/usr/bin/env python3
"""Puts measured tables into the READMEs, so that none is typed.

A README holds a pair of lines

    <!-- table FILE REGEX [MATRIX ...] -->
    <!-- end table -->

and between them this script writes the times in FILE (a JSON of `stages run`, relative to the project's root) of the
entries whose name REGEX finds: a line an entry, a column a matrix (all of the file, or those named), with the machine.

    tools/tables.py            writes all READMEs anew
    tools/tables.py --check    changes nothing; exit code 1 if one is not what the results say
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table (\S+) (\S+)((?: \S+)*) -->\n)(.*?)(<!-- end table -->)", re.DOTALL)


def seconds(value):
    """Three digits and a unit, as the program prints them."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= size * 0.9995 or unit == "ns":
            scaled = value / size
            return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f} {unit}"


def label(matrix):
    """The part of a spec that tells the matrices of a study apart."""
    match = re.fullmatch(r"gen:fixed:n=(\d+),zeros=0\.8", matrix)
    if match:
        return f"n = {match.group(1)}"
    return re.sub(r"^gen:twin:|^data:|\.mtx(\.gz)?$", "", matrix.rsplit("/", 1)[-1])


def table(results, pattern, wanted):
    """The Markdown table of one results file."""
    rows = [r for r in results["results"] if re.search(pattern, r["entry"]) and r["status"] != "skipped" and "seconds" in r]
    matrices = list(dict.fromkeys(r["problem"]["matrix"] for r in rows))
    if wanted:
        matrices = [m for m in matrices if m in wanted or label(m).replace(" ", "") in wanted]
    entries = list(dict.fromkeys(r["entry"] for r in rows if r["problem"]["matrix"] in matrices))
    time = {(r["entry"], r["problem"]["matrix"]): r["seconds"]["run"]["median"] for r in rows}
    best = {m: min(t for (_, matrix), t in time.items() if matrix == m) for m in matrices}
    lines = ["| entry | " + " | ".join(label(m) for m in matrices) + " |", "|---" * (len(matrices) + 1) + "|"]
    for entry in entries:
        cells = []
        for matrix in matrices:
            value = time.get((entry, matrix))
            text = "" if value is None else seconds(value)
            cells.append(f"**{text}**" if value == best[matrix] else text)
        lines.append(f"| `{entry}` | " + " | ".join(cells) + " |")
    context = results["context"]
    options = sorted({r["problem"]["options"] for r in rows if r["problem"]["options"]})
    what = "; ".join([f"time of one product, {o}" for o in options] or ["time of one product"])
    machine = context.get("gpu", "")
    where = machine if "gpu_sms" in context else context["cpu"]
    launch = ", replayed as a CUDA graph" if context.get("gpu_launch") == "graph" else ""
    lines.append("")
    lines.append(f"({what}{launch}; medians; {where}, {context['date'][:10]}, sources {context['source_digest'][:12]}; fastest bold)")
    return "\n".join(lines) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    stale = []
    for readme in sorted([*ROOT.glob("README.md"), *ROOT.glob("[0-9][0-9]_*/README.md")]):
        text = readme.read_text()

        def fill(match):
            results = json.loads((ROOT / match.group(2)).read_text())
            return match.group(1) + table(results, match.group(3), match.group(4).split()) + match.group(6)

        new = BLOCK.sub(fill, text)
        if new != text:
            stale.append(str(readme.relative_to(ROOT)))
            if not check:
                readme.write_text(new)
    if stale:
        print(("not what the results say: " if check else "written: ") + ", ".join(stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
