"""What the documents tell a reader to type, and what can be said of it without running it.

Commands stand in fences of the language `sh`, one a line (a backslash at its end continues it), as they are typed in the project's
root with the programs of build/cpu/bin on the PATH. Drawings and output are indented, and hold no commands. A comment right
before the fence says what a test cannot do as written; its lines are one for each command of the fence, or one `not run` for all:

    <!-- not run: needs a GPU -->
    <!-- run instead: stages run --quick -m gen:d1:a,shrink=16 --op spgemm -->
    <!--
    as written
    run instead: COMMAND
    not run: REASON
    -->

What runs in place of a command must be of the same program, and use all of its options: it is to try what is written there.
"""

import ast
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess

LANGUAGES = {"sh", "cpp", "text"}
FENCE = re.compile(r"^ {0,3}```(.*)$")
MARK = re.compile(r"(?P<kind>as written|not run|run instead)(?P<rest>.*)", re.DOTALL)
ASSIGNED = re.compile(r"[A-Z_]+=")
PLACEHOLDER = re.compile(r"\.\.\.|[\[\]]|^[A-Z]+$|\b[A-Z]{3,}\b")  # in running text: STAGE, [TARGET ...], NAME_tests.cpp
NO_FILE = {"-o", "--output", "--json", "--csv", "--filter", "--entries"}  # what follows them is written, or is no file
GENERATED = {"results.json", "out"}  # named in the text, and not there before somebody runs something


class Fault(Exception):
    pass


class Command:
    """A line that a reader may type: where it stands, and what the document says about running it."""

    def __init__(self, place, text):
        self.place, self.text = place, text
        self.instead, self.reason = None, None

    def __str__(self):
        return f"{self.place}: {self.text}"

    def words(self):
        return split(self.text)


def split(text):
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise Fault(f"{text}: {error}") from None


def apply(commands, comment):
    """Says for each command of a fence what the comment before it says about it."""
    lines = [line.strip() for line in comment.strip().splitlines()]
    found = [MARK.fullmatch(line) for line in lines]
    if not all(found):
        raise Fault(f"nobody knows the mark '{lines[found.index(None)]}'; a comment before an sh fence says one of: "
                    "as written, not run: REASON, run instead: COMMAND")
    if len(found) == 1 and found[0]["kind"] == "not run":
        found = found * len(commands)
    if found and len(found) != len(commands):
        raise Fault(f"{len(found)} marks for {len(commands)} commands")
    for command, mark in zip(commands, found):
        kind, rest = mark["kind"], mark["rest"].lstrip(":").strip()
        if (kind == "as written") != (not rest):
            raise Fault(f"'{kind}' {'takes nothing' if rest else 'must say more'}")
        if kind == "not run":
            command.reason = rest
        elif kind == "run instead":
            command.instead = rest


class Page:
    """A document: its commands in fences, those in its running text, and what is wrong with how it is written."""

    def __init__(self, name, text):
        self.name, self.commands, self.said, self.faults = name, [], [], []
        prose, comment, fence = [], None, None
        for number, line in enumerate(text.splitlines(), 1):
            place = f"{name}:{number}"
            edge = FENCE.match(line)
            if fence is not None:
                if edge:
                    self.close(fence)
                    fence = comment = None
                else:
                    fence[2].append((place, line))
            elif edge:
                fence = (place, edge[1].strip(), [], comment)
                if fence[1] not in LANGUAGES:
                    self.faults.append(f"{place}: a fence of the language '{fence[1]}'; give it one of {', '.join(sorted(LANGUAGES))}")
            elif comment is not None and "-->" not in comment:
                comment += "\n" + line
            elif line.startswith("<!--"):
                comment = line
            elif line.startswith("    "):
                words = line.replace("$ ", "", 1).split()
                if is_command(words) and not words[0].endswith("/"):
                    self.faults.append(f"{place}: '{line.strip()}' is a command outside an sh fence")
            elif line.strip():
                comment = None
                prose.append((place, line))
            else:
                prose.append((place, line))
        if fence is not None:
            self.faults.append(f"{fence[0]}: this fence never ends")
        self.read_prose(prose)

    def not_built(self):
        """Programs that a page runs and nobody has built; and builds of all that there is, with the tests, which take long."""
        all_words = [list(itertools.dropwhile(ASSIGNED.match, command.text.split())) for command in self.commands + self.said]
        builds = [words for words in all_words if words[:1] == ["tools/build.sh"]]
        run = [words[0].removeprefix("build/cpu/bin/") for words in all_words if is_command(words) or words[:1] == ["build/cpu/bin/first"]]
        missing = {name for name in run if re.match(r"\d\d_|first", name)}.difference(["01_cpu_serial"], *builds)
        return [f"{self.name}: {name}: neither ./run.sh nor a command of this page builds it" for name in sorted(missing)] + \
               [f"{self.name}: {' '.join(words)}: name what it is to build" for words in builds if len(words) == 2]

    def close(self, fence):
        place, language, lines, comment = fence
        if language != "sh":
            return
        commands, text, at = [], "", ""
        for at, line in lines:
            text += line.strip()
            if not text.endswith("\\"):
                commands += [Command(at, text)] if text and not text.startswith("#") else []
                text = ""
            text = text.removesuffix("\\")
        try:
            if comment is not None:
                apply(commands, comment.strip().removeprefix("<!--").removesuffix("-->"))
        except Fault as fault:
            self.faults.append(f"{place}: {fault}")
        self.commands += commands

    def read_prose(self, lines):
        """Code in running text: commands that are named there, and files."""
        for _, paragraph in itertools.groupby(lines, key=lambda line: bool(line[1].strip())):
            (place, first), *more = paragraph
            for code in re.findall(r"`([^`]+)`", "\n".join([first, *(line for _, line in more)])):
                self.said.append(Command(place, " ".join(code.split())))


MOST_LINES, WIDEST = 150, 120  # of a step's README
MADE = re.compile(r"<!-- (\w+) \S+ \S+.* -->")  # what tools/tables.py writes begins with such a line


def out_of_shape(text):
    """Why a step's README is more than a reader takes in: too many lines, or one that is too wide and neither of a table nor made by a script."""
    lines, made, faults = text.splitlines(), None, []
    if len(lines) > MOST_LINES:
        faults.append(f"{len(lines)} lines, at most {MOST_LINES}: tables belong into measured.md, what was tried into notes.md")
    for number, line in enumerate(lines, 1):
        if made:
            made = None if line == f"<!-- end {made} -->" else made
        elif (begins := MADE.fullmatch(line)) and f"<!-- end {begins[1]} -->" in lines[number:]:
            made = begins[1]
        elif len(line) > WIDEST and not line.startswith("|"):
            faults.append(f"line {number}: {len(line)} characters, at most {WIDEST}")
    return faults


def is_command(words):
    """Whether words begin like something that a reader types here."""
    words = list(itertools.dropwhile(ASSIGNED.match, words))
    if not words:
        return False
    first = words[0]
    return bool(re.fullmatch(r"\./\w+\.sh|tools/[\w.-]+|stages|ctest|cmake|git|python3|bash", first)
                or (re.fullmatch(r"\d\d_\w+", first) and len(words) > 1 and re.fullmatch("run|list|info", words[1])))


class Project:
    """The sources, and the programs built from them: what there is to be named."""

    def __init__(self, root, programs):
        self.root, self.programs = root, programs
        self.top = {path.name for path in root.iterdir()} - {".venv", "build", "carry", "out"}
        files = [path for top in self.top - {".git"} for path in [root / top, *(root / top).rglob("*")] if path.is_file()]
        self.files = {path.name for path in files}
        # Every word of the sources (but not of the test that makes names up), so that a name in a document can be looked up.
        self.words = {path.stem for path in files}
        for path in files:
            if path.suffix in {".cpp", ".hpp", ".cu", ".cuh", ".in", ".py", ".sh", ".txt", ".tsv", ".cmake", ".js"} and path.parent.name != "documents":
                self.words |= set(re.findall(r"\w+", path.read_text()))
        self.help = {}
        listed = json.loads(self.ask("list", "--json"))
        self.entries = {entry["name"]: {of["name"] for of in entry["parameters"]} for entry in listed["entries"]}
        self.builtin = {line.split("\t")[0] for line in (root / "data/builtin.tsv").read_text().splitlines() if not line.startswith("#")}
        self.generators, name = {}, None
        for line in self.ask("generate", "--list").splitlines():
            if head := re.match(r"gen:(\w+)", line):
                name = head[1]
                self.generators[name] = set()
            elif (key := re.match(r"    (\w+)(=\S+)?  ", line)) and name:
                self.generators[name].add(key[1])
        presets = json.loads((root / "CMakePresets.json").read_text())
        self.presets = {preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")}
        self.tests = None

    def ask(self, *words, program="stages"):
        done = subprocess.run([self.programs / program, *words], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise Fault(f"{program} {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def options(self, program, *command):
        """What a program's help says it takes, for a command of it."""
        if (program, *command) not in self.help:
            text = self.ask(*command, "--help", program=program)
            self.help[program, *command] = {option for line in re.findall(r"(?m)^  (-[\w,-]+)", text) for option in line.split(",")}
        return self.help[program, *command]

    def check(self, command, loose=False):
        """Everything that can be wrong with a command before it runs. Loose: in running text, where words may stand for others."""
        words = list(itertools.dropwhile(ASSIGNED.match, command.words()))
        if words := [word for word in words if not (loose and PLACEHOLDER.search(word))]:
            self.check_words(words)

    def check_words(self, words):
        first, rest = words[0], words[1:]
        if first in {"mkdir", "cp", "sed"}:
            return None
        self.check_files(words)
        for word in rest:
            self.check_spec(word)
        if first == "stages" or re.fullmatch(r"\d\d_\w+", first):
            return self.check_stages(first, rest)
        if first in ("ctest", "cmake"):
            return self.check_ctest(rest) if first == "ctest" else self.check_presets(rest)
        if "/" in first:
            return self.check_script(first, rest)
        raise Fault(f"'{first}' is no program of this project")

    def check_options(self, what, words, known):
        for word in words:
            name = word.split("=")[0]
            if re.match(r"--?[A-Za-z]", name) and name not in known:
                raise Fault(f"{what} has no option {name}")

    def check_stages(self, program, words):
        if not (self.programs / program).exists():
            raise Fault(f"there is no program {program}")
        if not words or words[0] in {"--help", "--version"}:
            return
        commands = set(re.findall(r"(?m)^  (\w+) {2,}\S", self.ask("--help", program=program).split("Commands:")[1].split("Options:")[0]))
        if words[0] not in commands:
            raise Fault(f"{program} has no command {words[0]}")
        self.check_options(f"{program} {words[0]}", words[1:], self.options(program, words[0]))
        for option, value in zip(words, words[1:]):
            if option == "--with" and value not in self.entries:
                raise Fault(f"there is no entry {value}")
            if option == "--filter" and not re.search(r"[()]", value):
                for choice in value.split("|"):
                    # What a build without nvcc has no libraries for cannot be looked up here.
                    if not choice.startswith("vendor/cu") and not any(re.search(choice, entry) for entry in self.entries):
                        raise Fault(f"--filter {value}: no entry has '{choice}' in its name")

    def check_spec(self, word):
        if data := re.fullmatch(r"data:(\w+)", word):
            if data[1] not in self.builtin:
                raise Fault(f"there is no {word}")
        elif spec := re.fullmatch(r"gen:(\w+)(?::(.*))?", word):
            if spec[1] not in self.generators:
                raise Fault(f"there is no generator {spec[1]}")
            for key in re.findall(r"(\w+)=", spec[2] or ""):
                if key not in self.generators[spec[1]]:
                    raise Fault(f"gen:{spec[1]} has no parameter {key}")

    def check_ctest(self, words):
        self.check_presets(words)
        if self.tests is None:
            text = subprocess.run(["ctest", "--test-dir", self.programs.parent, "--show-only=json-v1"], capture_output=True, text=True, timeout=60, check=True)
            self.tests = {test["name"] for test in json.loads(text.stdout)["tests"]}
        for option, value in zip(words, words[1:]):
            if option == "-R" and not any(re.search(value, test) for test in self.tests):
                raise Fault(f"no test has '{value}' in its name")

    def check_presets(self, words):
        for option, value in zip(words, words[1:]):
            if option == "--preset" and value not in self.presets:
                raise Fault(f"there is no preset {value}")

    def check_script(self, script, words):
        """A script of ours: that it reads as what it is, and knows the options."""
        path = self.root / script
        if path.is_dir() or self.built(script):
            return
        if not os.access(path, os.X_OK):
            raise Fault(f"{script} is not there, or cannot be executed")
        text = path.read_text()
        if path.suffix == ".py":
            ast.parse(text)
            known = set(re.findall(r'"(--?[\w-]+)"', text))
        else:
            done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise Fault(f"{script}: {done.stderr.strip()}")
            known = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", text))
        if script == "./run.sh":
            known = self.options("stages", "run")
        if script == "tools/ranks.sh":
            return self.check_stages("stages", ["run", *words[1:]])
        if script == "./test.sh":
            return self.check_ctest(words)
        self.check_options(script, words, known)

    def built(self, word):
        return word.startswith("build/") and (self.programs / pathlib.Path(word).name).exists()

    def check_files(self, words):
        """Words that name something of ours: it is there."""
        for before, word in zip(["", *words], words):
            if "/" in word and word.split("/")[0] in self.top and before not in NO_FILE and not self.named(word):
                raise Fault(f"{word} is not there")

    def named(self, word):
        entry, _, values = word.partition(":")
        if entry in self.entries:
            return set(re.findall(r"(\w+)=", values)) <= self.entries[entry]
        return any(True for _ in self.root.glob(word))

    def check_said(self, page, code):
        """A piece of code in running text: a command, a spec, a path, the name of a file, of an entry or of something in the sources,
        or none of these."""
        words = code.text.split()
        if is_command(words):
            return self.check(code, loose=True)
        if re.match("gen:|data:", code.text) and not PLACEHOLDER.search(code.text) and len(words) == 1:
            return self.check_spec(code.text)
        word = re.sub(r"[A-Z]{3,}", "*", code.text)
        if len(words) != 1 or word in GENERATED or "<" in word:
            return
        if "/" in word and word.split("/")[0] in self.top:
            if not self.named(word.removesuffix("/")) and not self.named(str(pathlib.Path(page.name).parent / word)):
                raise Fault(f"{code.text} is not there")
        elif re.fullmatch(r"[\w*-]+\.(cpp|hpp|cu|cuh|py|sh|tsv|cmake|in|md)", word) and "*" not in word and word not in self.files:
            raise Fault(f"there is no file {code.text}")
        elif re.fullmatch(r"[A-Za-z]\w*_\w+", word) and "_mine" not in word and word not in self.words:
            raise Fault(f"nothing in the sources is called {code.text}")


def check_instead(command):
    """That what runs in place of a command tries what the command says: the program, its command, and every option."""
    written, instead = command.words(), split(command.instead)
    wanted = written[: 2 if written[0] == "stages" else 1]
    if instead[: len(wanted)] != wanted:
        raise Fault(f"'{' '.join(wanted)}' cannot be tried by '{command.instead}'")
    for word in written:
        name = word.split("=")[0]
        if re.match(r"--?[A-Za-z]", name) and name not in instead:
            raise Fault(f"what runs instead does not use {name}")
