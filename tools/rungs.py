#!/usr/bin/env python3
"""The rungs of the steps, by data/rungs.tsv: what each changes, on which matrix it is right, and what it gained there.

    tools/rungs.py                          how long each rung is, and what differs from the rung before, in lines of code
    tools/rungs.py --check                  the same; exit code 1 where a rung has more than 40 lines of device code
    tools/rungs.py --gains RESULTS.json...  each rung beside the one that it names, on its matrix, with the prediction
    tools/rungs.py --draw RESULTS.json OUT.svg   all rungs of a record on the same matrices, each rung's own one marked

Device code: functions with __global__ or __device__, and device structures. Code of the processor: all but the registration. Comments and empty
lines do not count."""
import argparse
import difflib
import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import record  # noqa: E402
import tables  # noqa: E402
from tables import rungs  # noqa: E402

MOST = {".cu": 40, ".cpp": 90}  # of the processor's some 60 are the kernel, the others what any plan has


def file_of(entry):
    """The rung's file: the one that registers the entry."""
    step = entry.split("/")[0]
    found = [path for path in sorted((ROOT / step).glob("[0-9]*.c*")) if f'"{entry}"' in path.read_text() or path.stem.split("_", 1)[1] == entry.split("/")[1]]
    if len(found) != 1:
        sys.exit(f"data/rungs.tsv: {entry}: {len(found)} files of {step} register it")
    return found[0]


def code(path):
    return [line for line in (re.sub(r"//.*", "", line).rstrip() for line in path.read_text().splitlines()) if line.strip()]


def blocks(lines):
    """What stands at namespace scope, each a list of lines."""
    block, depth = [], 0
    for line in lines:
        if depth == 0 and re.match(r"#|namespace |using |}  *$|}$", line):
            continue
        block.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0 and re.search(r"[;}]\s*$", line):
            yield block
            block = []


def length(path):
    """Lines of device code, or of the processor's."""
    is_device = lambda text: re.search(r"__global__|__device__", text) and not re.search(r": public|Plan<T>::", text)
    is_kernel = lambda text: not re.search(r"^void add_|Registry", text, re.M)
    chosen = is_device if path.suffix == ".cu" else is_kernel
    return sum(len(block) for block in blocks(code(path)) if chosen("\n".join(block)))


def difference(path, other):
    changed = [line[0] for line in difflib.unified_diff(code(other), code(path), n=0, lineterm="") if line[:3] not in ("+++", "---")]
    return changed.count("+"), changed.count("-")


def show_lengths():
    """Prints a line a rung; how many kernels of a GPU are too long."""
    too_long = 0
    for _, of_step in rungs().values():
        for rung in of_step:
            path = file_of(rung["entry"])
            lines = length(path)
            over = "" if rung["over"] == "-" else "+{} -{}".format(*difference(path, file_of(rung["over"])))
            long = lines > MOST[path.suffix]
            too_long += long and path.suffix == ".cu"
            print(f"{rung['entry']:<40} {lines:>4} lines  {over:<10} {'TOO LONG' if long else ''}".rstrip())
    return too_long


def read(path):
    """A record, or what `stages run --json` wrote, in which each process has its median."""
    results = record.read(path)
    for row in tables.timed_rows(results):
        run = row["seconds"]["run"]
        if isinstance(run.get("processes"), list):
            run["processes"] = max(1, len(run["processes"]))
    return results


def names_of(problem):
    """As what a rung may name it."""
    return problem["matrix"], f"{problem['matrix']}; {problem['options']}"


def gain_of(rung, results):
    """Speed over the rung that it names, and its ±, on its matrix; None where there is no such record."""
    rows = {r["entry"]: r for r in tables.timed_rows(results) if rung["matrix"] in names_of(r["problem"])}
    if rung["over"] not in rows or rung["entry"] not in rows:
        return None
    mine, over = rows[rung["entry"]], rows[rung["over"]]
    return tables.median(over) / tables.median(mine), math.hypot(tables.noise(over), tables.noise(mine))


def show_gains(records):
    for path in records:
        results = read(path)
        for _, of_step in rungs().values():
            for rung in of_step:
                gain = gain_of(rung, results)
                if gain is None:
                    continue
                ratio, noise = gain
                wrong = rung["predicted"] == "wrong turn"
                verdict = "" if wrong or ratio >= 1.1 * (1 + noise) else "GAINS TOO LITTLE"
                print(f"{rung['entry']:<40} {ratio:6.2f}x ± {noise:4.0%} over {rung['over'].split('/')[1]:<20} predicted {rung['predicted']:<10} {verdict}".rstrip())


STYLE = """text{font:11px sans-serif;fill:#222}.small{font-size:9px}.line{stroke:#bbb}.dot{fill:#268bd2;stroke:#268bd2}.own{fill:#cb4b16;stroke:#cb4b16}
@media(prefers-color-scheme:dark){text{fill:#ddd}.line{stroke:#555}}"""


def draw(path, out):
    """A panel a matrix, a line a rung: its time on a logarithmic axis, with the ±; a diamond where the matrix is the rung's own."""
    results = read(path)
    timed = tables.timed_rows(results)
    step = next(r["entry"] for r in timed if not r["peer"]).split("/")[0]
    of_step = rungs()[step][1]
    several = len({r["problem"]["options"] for r in timed}) > 1
    problems = list(dict.fromkeys(names_of(r["problem"]) for r in timed))
    left, wide, high = 160, 720 / len(problems), 20
    bottom = 30 + high * len(of_step)
    parts = [f'<text x="0" y="{34 + high * place}">{rung["entry"].split("/")[1]}</text>' for place, rung in enumerate(of_step)]
    for panel, names in enumerate(problems):
        rows = {r["entry"]: r for r in timed if names_of(r["problem"]) == names and any(r["entry"] == rung["entry"] for rung in of_step)}
        decades = [math.floor(math.log10(min(map(tables.median, rows.values())))), math.ceil(math.log10(max(map(tables.median, rows.values()))))]
        at = lambda time: left + panel * wide + 10 + (wide - 50) * (math.log10(time) - decades[0]) / max(1, decades[1] - decades[0])
        parts.append(f'<text class="small" x="{left + panel * wide:.0f}" y="12">{html.escape(names[several].removeprefix("gen:"))}</text>')
        for power in range(decades[0], decades[1] + 1):
            x = at(10.0**power)
            parts.append(f'<path class="line" d="M{x:.0f} 18V{bottom}"/><text class="small" text-anchor="middle" x="{x:.0f}" y="{bottom + 12}">'
                         f"{tables.seconds(10.0**power)}</text>")
        for place, rung in enumerate(of_step):
            if rung["entry"] not in rows:
                continue
            time, noise, y = tables.median(rows[rung["entry"]]), tables.noise(rows[rung["entry"]]), 30 + high * place
            own = rung["matrix"] in names
            mark = f"M{at(time):.1f} {y - 6}l6 6-6 6-6-6z" if own else f"M{at(time) - 3:.1f} {y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0"
            parts.append(f'<path class="{"own" if own else "dot"}" d="{mark}M{at(time / (1 + noise)):.1f} {y}H{at(time * (1 + noise)):.1f}">'
                         f'<title>{rung["entry"]}: {tables.seconds(time)} ± {noise:.0%}</title></path>')
    origin = html.escape(tables.source_of(results["context"]))
    parts.append(f'<text class="small" x="0" y="{bottom + 28}">time of one product; diamond: the matrix on which a rung is to gain. {origin}</text>')
    pathlib.Path(out).write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + 720} {bottom + 34}" role="img">\n'
                                 f'<title>The rungs of {step} on the same matrices</title>\n<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--gains", nargs="+", metavar="RESULTS.json")
    parser.add_argument("--draw", nargs=2, metavar=("RESULTS.json", "OUT.svg"))
    given = parser.parse_args()
    if given.gains:
        show_gains(given.gains)
    elif given.draw:
        draw(*given.draw)
    else:
        too_long = show_lengths()
        return 1 if given.check and too_long else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
