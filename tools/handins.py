#!/usr/bin/env python3
"""Grades a class: a folder of hand-ins, several at once, into a table (CSV) and a page.

DIR holds a directory for each student, with his files somewhere in it, as course tools give them: DIR/ada/row_lengths.cu. Each
keeps the name of its exercise. Where one exercise is graded, DIR may hold a file for each student instead: DIR/ada.cu.

Both are written anew after each hand-in: what is graded is there when this is interrupted, and marked as a part.
"""

import argparse
import concurrent.futures
import csv
import dataclasses
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))
from autograder import grading  # noqa: E402
import exercises as masters  # noqa: E402
import record  # noqa: E402

EXAMPLES = """Examples:
  tools/handins.py 05_cuda_csr/exercises/row_lengths.cu handins -o class
      one exercise; writes class.csv and class.html
  tools/handins.py 05 handins -o lab5 -- --battery full
      all exercises of a step; what follows -- is for `stages grade`

Exit codes: 0 every hand-in is graded; 1 some could not be; 2 bad usage; 130 interrupted.
"""
WAITING, NO_FILE, GRADED, TROUBLE = "not graded yet", "no file", "graded", "could not be graded"


def printable(text):
    """Without control characters and what turns the direction of writing, as `stages` shows names."""
    return re.sub("[\0-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", lambda c: c[0].encode("unicode_escape").decode(), text)


def fail(message):
    print(f"handins: error: {printable(message)}", file=sys.stderr)
    sys.exit(2)


@dataclasses.dataclass
class HandIn:
    """A student's file for one exercise, and what came of it."""

    student: str
    exercise: str  # STEP/FILE
    file: pathlib.Path | None
    status: str = WAITING
    points: int = 0
    lost: list = dataclasses.field(default_factory=list)  # pairs: a class of input, and the reason

    def why(self):
        """All in a line."""
        status = [] if self.status == GRADED else [self.status]
        return "; ".join(status + [f"{what}: {reason}" if what else reason for what, reason in self.lost])

    def short(self):
        """Where points were lost; all of it stands with the mistake."""
        if self.status != GRADED:
            return self.why()
        text = ", ".join(what for what, _ in self.lost if what) or self.why()
        return text if len(text) <= 160 else text[:157] + "..."

    def mistake(self):
        """What hand-ins with the same mistake have in common: where points were lost, and the reason but for its numbers."""
        return self.exercise, tuple((what, re.sub(r"-?\b(\d[\d.]*(e[-+]?\d+)?|nan|inf)\b", "#", reason)) for what, reason in self.lost)


def one_line(text):
    return printable(" ".join(text.split()))


def handins_in(directory, exercises):
    """All hand-ins, by student and exercise, those among them that have no file."""
    try:
        entries = sorted(directory.iterdir(), key=lambda path: path.name.lower())
    except OSError as error:
        fail(f"{directory}: cannot be read: {error.strerror}; name the folder of the hand-ins")
    found = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            for exercise in exercises:
                file, why = grading.handed_in(entry, exercise)
                found.append(HandIn(printable(entry.name), exercise, file, *(() if file else (NO_FILE, 0, [("", why)]))))
        elif entry.suffix in (".cu", ".cpp") and entry.is_file():
            if len(exercises) > 1:
                fail(f"{entry}: a file beside directories says not which exercise it is; name one exercise, or give each student a directory")
            found.append(HandIn(printable(entry.stem), exercises[0], entry))
    if not found:
        fail(f"{directory}: holds no hand-ins; it needs a directory for each student, or a file such as {directory}/ada.cu")
    names = [(h.student, h.exercise) for h in found]
    for name in names:
        if names.count(name) > 1:
            fail(f"{directory}: {name[0]} is there twice, as a directory and as a file; keep one")
    return found


# Runs what follows the number of this process, and ends it when this process ends, whatever ends that: SIGKILL, too.
WATCHED = ["-I", "-S", "-c", """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""]


class Grader:
    """Grades hand-ins by `stages grade`, a process each."""

    def __init__(self, program, words):
        self.program, self.words = program, words
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False
        self.note = ""

    def stop(self):
        """Ends what runs. Each of them takes what it has started with it."""
        self.stopped = True
        with self.lock:
            for process in self.running:
                process.send_signal(signal.SIGTERM)

    def grade(self, handin):
        step, name = handin.exercise.split("/")
        with tempfile.TemporaryDirectory(prefix="stages-handins-") as place:
            file = pathlib.Path(place) / name
            try:
                shutil.copyfile(handin.file, file, follow_symlinks=False)
            except OSError as error:
                handin.status, handin.lost = TROUBLE, [("", printable(f"{handin.file}: cannot be read: {error.strerror or 'it is no file'}"))]
                return
            words = [self.program, "grade", step, file, "--json", *self.words]
            with self.lock:
                if self.stopped:
                    return
                process = subprocess.Popen([sys.executable, *WATCHED, str(os.getpid()), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True, errors="replace", start_new_session=True)
                self.running.add(process)
            out, said = process.communicate()
            with self.lock:
                self.running.discard(process)
                if not self.note and said.startswith("NOT CONFINED"):
                    self.note = said.splitlines()[0]
                    print(self.note, file=sys.stderr)
        if process.returncode not in (0, 1):
            if not self.stopped:
                handin.status, handin.lost = TROUBLE, [("", one_line(said)[-500:] or f"stages grade ended with exit code {process.returncode}")]
            return
        try:
            grade = json.loads(out)["grades"][0]
        except ValueError:  # what follows -- asked for something else
            handin.status, handin.lost = TROUBLE, [("", f"stages grade {' '.join(self.words)}: gives no grade; leave these options out")]
            return
        handin.status, handin.points = GRADED, grade["points"]
        handin.lost = [("", one_line(grade["broken"]))] if grade["broken"] else [
            (c["class"], one_line(c["reason"])) for c in grade["classes"] if c["counts"] and not c["good"]]
        handin.lost += [(d["demand"], one_line(d["reason"])) for d in grade.get("efficiency", []) if not d["met"]]
        if grade["speed_note"] and grade["points"] < 100 and not handin.lost:
            handin.lost = [("speed", grade["speed_note"])]


def replace(path, text):
    try:
        record.write(path, text)
    except OSError as error:
        raise SystemExit(f"handins: error: {path}: cannot be written: {error.strerror}; choose another place by -o") from None


def text_cell(text):
    """A spreadsheet takes what begins with one of these characters for a formula; an apostrophe in front makes it text."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def students(handins):
    """The hand-ins of each student, in order."""
    rows = {}
    for handin in handins:
        rows.setdefault(handin.student, []).append(handin)
    return rows


def is_graded(handin):
    return handin.status in (GRADED, NO_FILE)


def points_of(row):
    """The points of a student; none: they are not known yet."""
    return sum(h.points for h in row) if all(map(is_graded, row)) else None


def as_csv(handins, exercises):
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["student", "points", "of", *(head for exercise in exercises for head in (exercise, f"{exercise}: why"))])
    for student, row in students(handins).items():
        points = points_of(row)
        cells = [text_cell(student), "" if points is None else points, 100 * len(row)]
        for handin in row:
            cells += [handin.points if is_graded(handin) else "", text_cell(handin.why())]
        table.writerow(cells)
    return out.getvalue()


def mistakes(handins):
    """Hand-ins that lost points by the same mistake, the most frequent first."""
    groups = {}
    for handin in handins:
        if handin.status == GRADED and handin.points < 100:
            groups.setdefault(handin.mistake(), []).append(handin)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].exercise))


def as_page(handins, exercises, note):
    import jinja2
    from markupsafe import Markup

    here = TOOLS / "report"
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                                     undefined=jinja2.StrictUndefined)
    groups = mistakes(handins)
    rows = [(student, row, points_of(row)) for student, row in students(handins).items()]
    number = {id(h): k for k, group in enumerate(groups, 1) for h in group}
    return environment.get_template("handins.html").render(
        title=", ".join(exercises), exercises=exercises, rows=rows, mistakes=groups, number=number, name=id, done=sum(is_graded(h) for h in handins), all=len(handins),
        note=note, several=len(exercises) > 1,
        style=Markup((here / "page.css").read_text()), script=Markup((here / "page.js").read_text()))


def arguments():
    words = sys.argv[1:]
    rest = []
    if "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(prog="handins", usage="tools/handins.py EXERCISE ... DIR -o NAME [--jobs N] [-- OPTIONS]", description=__doc__,
                                     epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: fail(f"{message}; see --help")
    parser.add_argument("exercises", nargs="+", metavar="EXERCISE", help="05_cuda_csr/exercises/row_lengths.cu, 05/row_lengths.cu, or 05: all exercises of that step")
    parser.add_argument("directory", type=pathlib.Path, metavar="DIR", help="the hand-ins")
    parser.add_argument("-o", "--output", required=True, metavar="NAME", help="writes NAME.csv and NAME.html")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="hand-ins at once; without it the processors")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/cpu/bin/stages", metavar="STAGES", help="the program [build/cpu/bin/stages]")
    options = parser.parse_args(words)
    if not 1 <= options.jobs <= 1024:
        fail(f"--jobs {options.jobs}: must be a number from 1 to 1024")
    if not os.access(options.program, os.X_OK):
        fail(f"{options.program}: is no program; build it (tools/build.sh cpu stages), or name it by --program")
    out = pathlib.Path(options.output)
    if out.is_dir() or not out.name:
        fail(f"-o {out}: is a directory; name what is written without .csv and .html")
    if not out.absolute().parent.is_dir():
        fail(f"-o {out}: there is no directory {out.parent}; make it")
    return options, rest, out


def main():
    options, words, out = arguments()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        fail(f"this needs jinja2 in {sys.executable}; install python3-jinja2 and use the system's python3")
    exercises = masters.chosen(options.exercises, fail)
    handins = handins_in(options.directory, exercises)
    grader = Grader(options.program, words)
    table, page = (out.with_name(out.name + end) for end in (".csv", ".html"))

    def write():
        replace(table, as_csv(handins, exercises))
        replace(page, as_page(handins, exercises, grader.note))

    write()
    interrupted = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: (interrupted.append(got), grader.stop()))
    start = time.monotonic()
    todo = [h for h in handins if h.file]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as side_by_side:
        works = {side_by_side.submit(grader.grade, h): h for h in todo}
        for count, work in enumerate(concurrent.futures.as_completed(works), 1):
            work.result()
            handin = works[work]
            if handin.status == WAITING:
                continue  # it was interrupted
            came_of_it = f"{handin.points} points" if handin.status == GRADED else handin.why()
            print(f"{count} of {len(todo)}: {handin.student}, {handin.exercise}: {came_of_it}", file=sys.stderr)
            write()
    left = sum(h.status == WAITING for h in handins)
    print(f"written: {table}, {page}: {sum(map(is_graded, handins))} of {len(handins)} hand-ins in {time.monotonic() - start:.0f} s")
    if interrupted and left:
        print(f"handins: interrupted: {left} hand-ins are not graded", file=sys.stderr)
        sys.exit(130)
    sys.exit(1 if any(h.status == TROUBLE for h in handins) else 0)


if __name__ == "__main__":
    main()
