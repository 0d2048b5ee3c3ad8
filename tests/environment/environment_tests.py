#!/usr/bin/env python3
"""That docs/environment.md names every environment variable that is read, every option of the build, and nothing else."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from played import ROOT, Played

PAGE = "docs/environment.md"
NOT_OURS = {".git", ".venv", "build", "carry", "out", "results", "data"}
# What bash sets itself.
OF_BASH = {"PWD", "SECONDS", "EPOCHREALTIME", "BASH_SOURCE", "BASH_REMATCH", "HOME"}


def sources(root):
    """The files that may read a variable, except this one."""
    for top in sorted(root.iterdir()):
        for path in sorted(top.rglob("*")) if top.is_dir() and top.name not in NOT_OURS else [top]:
            if path.is_file() and path != pathlib.Path(__file__).resolve() and "mine" not in path.parts:
                yield path


def read_by(path):
    """The names of variables that a file reads."""
    text = path.read_text(errors="replace")
    if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"}:
        # Any name of ours in quotes: functions that read have several names. And what is asked for by the usual ones.
        names = set(re.findall(r"\b(?:getenv|environment)\(\"([A-Z0-9a-z_]+)\"", text))
        names |= {name for call, name in re.findall(r"(\w*)\(?\"(STAGES_[A-Z0-9_]+)\"", text) if call not in {"setenv", "unsetenv"}}
        for listed in re.findall(r"for \(const char\* const name : \{([^}]*)\}\)", text):
            names |= set(re.findall(r'"([A-Z_]+)"', listed)) if "getenv(name)" in text else set()
        return names
    if path.suffix in {".sh", ".sbatch"} or (path.parent.name == ".ci" and path.name == "run"):
        text = re.sub(r"(?m)^\s*#.*", "", text)
        # A script's own variables are those that it sets before it reads them.
        first = {}
        for found in re.finditer(r"\$\{?(?P<read>[A-Z][A-Z0-9_]+)|(?m:^)\s*(?:local |export )?(?P<set>[A-Z][A-Z0-9_]+)=(?!\$\{?(?P=set))", text):
            first.setdefault(found["read"] or found["set"], found.lastgroup)
        return {name for name, what in first.items() if name not in OF_BASH and what == "read"}
    if path.suffix in {".py", ".ipynb"}:
        if path.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
        return set(re.findall(r"(?:environ(?:\.get\(|\[)|getenv\()[\"']([A-Z0-9_]+)[\"']", text))
    if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
        return set(re.findall(r"\$ENV\{([A-Z0-9_]+)\}", text))
    return set()


def options(root):
    """The build's options, with their defaults; none where a default is computed."""
    found = {}
    for path in [root / "CMakeLists.txt", *(root / "cmake").glob("*.cmake")]:
        text = path.read_text()
        for name, default in (*re.findall(r"\boption\((\w+)\s+\"[^\"]*\"\s*(\w*|\$\{\w+\})\)", text),
                              *re.findall(r"\bset\((\w+)\s+(\"[^\"]*\"|\S+)\s+CACHE\s+(?!INTERNAL)\w+", text)):
            found[name] = None if "$" in default else default.strip('"') or "OFF"
    return found


def table(text, heading):
    """The rows of the tables between a heading and the next that has no table of the kind."""
    part = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def faults(root):
    text = (root / PAGE).read_text()
    named = {name for kind in ("programs", "scripts", "tests") for row in table(text, f"Variables of the {kind}")
             for name in re.findall(r"`([A-Z0-9a-z_]+)`", row[0])}
    read = {}
    for path in sources(root):
        for name in read_by(path):
            read.setdefault(name, str(path.relative_to(root)))
    # Tests and tools may look up what is there for everybody, and what the page says that others read.
    common = {"PATH"} | set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", text.split("\n## Read by what we use\n")[-1].split("\n## ")[0]))
    rows = {name: row[1].strip("`") for row in table(text, "Options of the build") for name in re.findall(r"`(\w+)`", row[0])}
    given = options(root)
    return [*(f"{read[name]} reads {name}, and {PAGE} does not name it" for name in sorted(set(read) - named - common)),
            *(f"{PAGE} names {name}, which nothing reads" for name in sorted(named - set(read))),
            *(f"{PAGE} does not name the option {name}" for name in sorted(set(given) - set(rows))),
            *(f"{PAGE} names the option {name}, which there is not" for name in sorted(set(rows) - set(given))),
            *(f"{PAGE} says that {name} is {rows[name]} without being given; it is {given[name]}"
              for name in sorted(set(rows) & set(given)) if given[name] not in (None, rows[name]))]


class Tables(unittest.TestCase):
    def test_they_hold_what_is_read(self):
        self.assertEqual(faults(ROOT), [])


class Planted(Played):
    """Sources with one fault, which must be found."""

    def setUp(self):
        super().setUp()
        head = "\n## {}\n\n| variable | read by |\n|---|---|\n"
        self.page = (head.format("Variables of the programs") + "| `STAGES_A` | x |\n" + head.format("Variables of the scripts") +
                     head.format("Variables of the tests") + "\n## Read by what we use\n\n`CC`\n" + head.format("Options of the build") + "| `STAGES_NATIVE`, `STAGES_PCH` | `ON` |\n")
        self.write(PAGE, self.page)
        self.write("common/a.cpp", 'const char* a = std::getenv("STAGES_A");\n')
        self.write("CMakeLists.txt", 'option(STAGES_NATIVE "for this processor" ON)\noption(STAGES_PCH "headers" ON)\n')

    def test_read_and_not_named(self):
        for name, text in (("tools/a.sh", 'PLAY=1\necho "$PLAY" "$PWD" "$small"\n# ${STAGES_Z}\n'), ("common/b.cpp", 'setenv("STAGES_B", "1", 1);\n'),
                           ("tools/c.sh", '"${CC:-cc}"\n')):
            self.write(name, text)
        self.assertEqual(faults(self.directory), [], "nothing is wrong with these")
        for name, text in (("common/b.cpp", 'environment("STAGES_B")'), ("common/c.hpp", 'number_of("STAGES_B", 1)'), ("common/d.cu", 'std::getenv("B_STAGES")'),
                           ("tools/b.sh", 'x=${STAGES_B:-1}'), ("run.sh", 'x="$B_STAGES"'), ("slurm/b.sbatch", "export STAGES_B=${STAGES_B:-srun}"),
                           (".ci/run", "echo $STAGES_B"), ("tests/b.py", 'os.environ.get("STAGES_B")'), ("tools/c.py", "os.environ['STAGES_B']"),
                           ("cmake/b.cmake", "set(x $ENV{STAGES_B})"),
                           ("notebooks/b.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": ['os.environ.get("STAGES_B")']}]}))):
            with self.subTest(file=name):
                self.write(name, text + "\n")
                self.assertRegex("\n".join(faults(self.directory)), f"{name} reads (STAGES_B|B_STAGES), and")
                (self.directory / name).unlink()

    def test_named_and_not_read(self):
        self.write(PAGE, self.page.replace("`STAGES_A`", "`STAGES_A`, `STAGES_OLD`"))
        self.assertEqual(faults(self.directory), [f"{PAGE} names STAGES_OLD, which nothing reads"])
        self.write(PAGE, self.page)
        given = self.read("CMakeLists.txt")
        for text, faults_ in ((given + 'option(STAGES_MORE "more" OFF)\nset(STAGES_WORD "a" CACHE STRING "a word")\n',
                               [f"{PAGE} does not name the option STAGES_{name}" for name in ("MORE", "WORD")]),
                              (given.replace('processor" ON', 'processor" OFF'),
                               [f"{PAGE} says that STAGES_NATIVE is ON without being given; it is OFF"]),
                              (given.splitlines()[1], [f"{PAGE} names the option STAGES_NATIVE, which there is not"])):
            self.write("CMakeLists.txt", text)
            self.assertEqual(faults(self.directory), faults_)

if __name__ == "__main__":
    unittest.main()
