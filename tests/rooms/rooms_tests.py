#!/usr/bin/env python3
"""Which folder includes which: what docs/architecture.md draws, and nothing else.

The table under "## Rooms" has a line per room: its name, and the rooms that it may include. It may also include what these may.
"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
STEP = re.compile(r"^\d\d_")
GENERATED = {"stages_source_digest.hpp"}  # written by the build


def room_of(path):
    """common/NAME, a step's number and name, or the first folder; exercises are handed in, and are the room micro."""
    parts = path.split("/")
    if parts[0] == "common":
        return parts[1]
    return "micro" if STEP.match(parts[0]) and "exercises" in parts else parts[0]


def allowed_rooms(page):
    """{room: all rooms that it may include}, from the page's table; `steps` stands for each step."""
    table = page.split("## Rooms\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|\n]*\| ([^|\n]*) \|$", table, re.M)
    direct, closed = {name: set(re.findall(r"\w+", may)) for name, may in rows}, {}

    def close(name):
        if name not in closed:
            if name not in direct:
                raise ValueError(f"docs/architecture.md: '{name}' is in a line of the table of rooms, and has none itself")
            closed[name] = set()  # ends a circle, which then shows as a missing room
            closed[name] = direct[name].union(*map(close, direct[name]))
        return closed[name]

    for name in direct:
        close(name)
    return closed


def violations(sources, allowed):
    """`file includes "header": ROOM may not include ROOM` for each such line of {path: text}."""
    out = []
    for path, text in sources.items():
        room = room_of(path)
        known = "steps" if STEP.match(room) else room
        for header in INCLUDE.findall(text):
            other = room_of(header)
            if other == room or header in GENERATED:
                continue
            named = "steps" if STEP.match(other) else other
            if known not in allowed or named not in allowed[known] or known == named:
                out.append(f'{path} includes "{header}": {room} may not include {other}')
    return out


class Rooms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = (ROOT / "docs/architecture.md").read_text()
        cls.allowed = allowed_rooms(cls.page)
        listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.cu", "*.in"], cwd=ROOT, capture_output=True, text=True)
        files = listed.stdout.split() or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*.[ch]pp")]
        # tests/install is somebody else's project.
        cls.sources = {f: (ROOT / f).read_text() for f in files if not f.startswith("tests/install/") and (ROOT / f).exists()}

    def test_rooms_include_what_the_page_draws(self):
        """And it names every room, and no other."""
        self.assertGreater(len(self.sources), 300)
        self.assertEqual(violations(self.sources, self.allowed), [])
        self.assertEqual(set(self.allowed), {"steps" if STEP.match(r) else r for r in map(room_of, self.sources)})

    def test_violations_are_found(self):
        planted = {
            "common/matrix/x.cpp": '#include "common/harness/plan.hpp"',
            "05_cuda_csr/x.cu": '#include "04_cuda_shared/stage.hpp"',
            "common/gpu/x.hpp": ' # include "common/cli/run.hpp"',
            "micro/x.hpp": '#include "common/judge/judge.hpp"',
        }
        self.assertEqual(len(violations(planted, self.allowed)), len(planted))
        self.assertEqual(violations({"common/harness/x.cpp": '#include "common/matrix/types.hpp"\n#include <vector>'}, self.allowed), [])
        with self.assertRaisesRegex(ValueError, "cellar"):  # a room without a line
            allowed_rooms("## Rooms\n| `matrix` | x | - |\n| `harness` | x | matrix, cellar |\n")

    def test_each_entry_is_in_the_list_of_its_step(self):
        """What registers an entry and is called by nothing would be left out of the program without a word."""
        defined, called = set(), set()
        for path, text in self.sources.items():
            step = path.split("/")[0]
            if STEP.match(step) and "exercises" not in path.split("/"):
                names = {(step, name) for name in re.findall(r"\b(add_\w+)\b", text)}
                if path.endswith("/stage.cpp"):
                    called |= names
                elif not path.endswith(".hpp"):
                    defined |= {(step, name) for name in re.findall(r"^void (add_\w+)\(Registry& \w+[,)]", text, re.M)
                                if len(re.findall(rf"\b{name}\b", text)) == 1}  # else it is called here
        self.assertGreater(len(defined), 50)
        self.assertEqual(defined - called, set())


if __name__ == "__main__":
    unittest.main()
