#!/usr/bin/env python3
"""Makes one page of pictures and tables of results files: what people look at before they read numbers.

The files are those that `stages run --json` writes, of any number of runs; each gets what it has the data for. The page is one
file without links to others: it can be mailed, put on a web page, opened on a phone, printed.
"""

import argparse
import pathlib
import sys

import record

EXAMPLES = """Examples:
  tools/report.py out/results.json -o report.html
      what ./run.sh makes at its end
  tools/report.py results/nvidia-h100-80gb-hbm3/*.json -o h100.html --program build/gpu/bin/stages
      several runs in one page, with pictures of all their matrices
  tools/report.py --compare before.json after.json -o change.html
      what got faster or slower beyond the noise

Exit codes: 0 the page is written; 2 bad usage or input, one line on stderr says what.
"""


def fail(message):
    print(f"report: error: {message}", file=sys.stderr)
    sys.exit(2)


def arguments():
    parser = argparse.ArgumentParser(prog="report", usage="tools/report.py RESULTS.json ... -o REPORT.html", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: fail(f"{message}; see --help")
    parser.add_argument("results", nargs="*", metavar="RESULTS.json", help="files that `stages run --json` wrote")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the page to write")
    parser.add_argument("--compare", nargs=2, metavar=("OLD.json", "NEW.json"), help="show what got faster or slower from one file to the other")
    parser.add_argument("--least", type=float, default=2, metavar="PCT",
                        help="with --compare: a change below this many percent is noise whatever the samples say [2]")
    parser.add_argument("--controls", default="", metavar="REGEX",
                        help="with --compare: entries whose code is the same in both files, beside those of libraries")
    parser.add_argument("--program", metavar="STAGES", help="the program `stages`, which is asked what the matrices look like; without this the one of the preset cpu, of small ones")
    options = parser.parse_args()
    if not options.results and not options.compare:
        parser.error("no results are given; name files that `stages run --json` wrote")
    if not 0 <= options.least < 1000:
        parser.error(f"--least {options.least:g}: must be a number of percent, at least 0")
    return options


def write(path, text):
    """Writes the file whole, or leaves what was there. A device or a pipe is written to."""
    path = pathlib.Path(path)
    if path.is_dir():
        fail(f"{path}: is a directory; name a file")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            record.write(path, text)
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}; choose another place by -o")


def main():
    options = arguments()
    from report import results

    def warn(message):
        print(f"report: {message}", file=sys.stderr)

    try:
        pair = results.read_all(options.compare) if options.compare else []
        files = results.read_all(options.results, warn) if options.results else []
    except results.Bad as error:
        fail(error)
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        fail(f"this needs {error.name} in {sys.executable}; install python3-matplotlib and python3-jinja2 and use the system's python3")
    from report import compare, ladder, matrices, overview, page, roofline, scaling, steps, sweeps, verdicts

    sections = []
    if pair:
        compared = verdicts.compare(*pair, options.least / 100, options.controls)
        if not compared.pairs and not compared.broken:
            fail(f"{options.compare[0]} and {options.compare[1]}: have no timed entry on the same problem in common; compare runs of the same command")
        sections.append(compare.comparison_section(*pair, compared, options.least / 100))
        print(compared.summary())
    runs = results.joined(files)
    by_rule = results.by_rule(runs)
    sections += overview.troubles(files) + overview.at_a_glance(by_rule)
    sections += ladder.ladders(by_rule) + sweeps.sweeps(runs) + scaling.scalings(runs) + roofline.rooflines(runs)
    sections += matrices.described(files, options.program, warn)
    write(options.output, page.page("sparse-stages: report", [*pair, *files], sections, steps.opening(files)))
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
