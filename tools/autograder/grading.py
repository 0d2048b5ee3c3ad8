"""Grades what one student handed in: each exercise of the lab by `stages grade`, all of them into one result.

run_autograder (Gradescope) and autograder.py (Classroom 50) call it. It needs nothing but Python, and runs no code of the
student's: `stages grade` confines that.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MOST = 3000  # characters of a reason in a release's text


class Trouble(Exception):
    """Nobody's hand-in is at fault; the text says what to do."""


def exercises():
    """The exercises of this lab, as STEP/FILE."""
    return json.loads((HERE / "exercises.json").read_text(encoding="utf-8"))["exercises"]


def handed_in(directory, exercise):
    """The file for an exercise among what was handed in, and why there is none: one of the two is None.

    Its name decides, wherever it lies; STEP/NAME comes before NAME, and that before what lies deeper.
    """
    step, name = exercise.split("/")
    found = []
    for place, directories, files in os.walk(directory):  # does not follow links
        directories[:] = sorted(d for d in directories if d != ".git")
        if name in files:
            found.append(pathlib.Path(place) / name)
    links = [path for path in found if path.is_symlink()]
    found = [path for path in found if not path.is_symlink()]
    for place in (directory / step / name, directory / name):
        if place in found:
            return place, None
    in_step = [path for path in found if path.parent.name == step] or found
    if len(in_step) == 1:
        return in_step[0], None
    if found:
        return None, f"there are {len(in_step)} files {name}; hand in one"
    return None, f"{name} is a link; hand in the file itself" if links else f"there is no file {name} in what was handed in; it keeps the name that it had"


def graded(program, step, file, form):
    """What `stages grade` says of a file, parsed; `program` are the words of a command."""
    words = [*map(str, program), "grade", step, str(file), "--format", form]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise Trouble(f"{words[0]}: cannot be run: {error.strerror}; run setup.sh again") from None
    if done.returncode not in (0, 1):
        raise Trouble(f"stages grade ended with exit code {done.returncode}; what it said stands above")
    return json.loads(done.stdout)


def missing(form, name, why):
    """The result for an exercise without a file."""
    if form == "gradescope":
        return {"score": 0, "tests": [{"name": name, "score": 0, "max_score": 100, "status": "failed", "output": why}]}
    return {"score": 0, "max-score": 100, "tests": [{"test-name": name, "passed": False, "score": 0, "max-score": 100, "output": why}]}


def result(program, directory, form):
    """The result of all exercises together, in a form of `stages grade --format`."""
    title = "name" if form == "gradescope" else "test-name"
    total = None
    lab = exercises()
    for exercise in lab:
        step, name = exercise.split("/")
        file, why = handed_in(directory, exercise)
        one = missing(form, name, why) if file is None else graded(program, step, file, form)
        if len(lab) > 1:  # steps have exercises of the same name
            for test in one["tests"]:
                test[title] = f"{step}/{test[title]}"
        if total is None:
            total = one
            continue
        for key in ("score", "max-score"):
            if key in one:
                total[key] += one[key]
        total["tests"] += one["tests"]
        total = {**one, **total}  # whose it is, which the result for a missing file does not say
    return total


def fail(message):
    print(f"autograder: error: {message}", file=sys.stderr)
    sys.exit(2)
