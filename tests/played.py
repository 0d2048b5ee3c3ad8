"""A directory for a test, with programs that scripts play, and what a call of a script says there; a wait, a terminal, a reader, and options."""

import argparse
import contextlib
import gzip
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to that")
        time.sleep(0.02)


def on_terminal(*words, environment=os.environ, **more):
    """What a command says on a terminal, and its exit code."""
    ours, its = pty.openpty()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=its, stderr=its, env={**environment, "TERM": "xterm", **more})
    os.close(its)
    said = b""
    with contextlib.suppress(OSError):  # when the other end is closed
        while part := os.read(ours, 65536):
            said += part
    os.close(ours)
    return said.decode(), process.wait(120)


def entries_of(path):
    """The banner of a Matrix Market file, its shape and number of entries, and each entry, whose places count from 0: by splitting lines and nothing
    else. A pattern's values are 1."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        banner, shape, *lines = (line.split() for line in file)
    return banner, tuple(map(int, shape)), [(int(i) - 1, int(j) - 1, float(*value or [1])) for i, j, *value in lines]


def given(*options):
    """The paths that these options name on the command line, which must all be there; what else it holds is for unittest."""
    parser = argparse.ArgumentParser()
    for option in options:
        parser.add_argument(f"--{option}", type=pathlib.Path, required=True)
    found, sys.argv[1:] = parser.parse_known_args()
    return [getattr(found, option).resolve() for option in options]


class Case(unittest.TestCase):
    """A directory for each test, files in it, and what is expected of a command that refuses."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, text=""):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def play(self, **files):
        """Files of one line each, by which the programs play."""
        for name, text in files.items():
            self.write(name, text + "\n" if text else "")

    def script(self, name, text):
        path = self.write(name, f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
        return path

    def read(self, name):
        path = self.directory / name
        return path.read_text() if path.exists() else ""

    def refuses(self, call, begins, expected):
        """The command that `call` runs ends with exit code 2, nothing on stdout, and one line on stderr that begins so and says `expected` (both
        regular expressions), and leaves no file behind that was not there before."""
        before = sorted(self.directory.rglob("*"))
        done = call()
        said = f"{done.args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), said)
        self.assertRegex(done.stderr, f"^{begins}", said)
        self.assertRegex(done.stderr, expected, said)
        self.assertEqual(sorted(self.directory.rglob("*")), before, said)
        return done

    def all_refused(self, *cases, **options):
        """Of each case the expected line, and the words; how they are refused a class says by `refused`."""
        for expected, *words in cases:
            with self.subTest(words=words):
                self.refused(expected, *words, **options)


class Played(Case):
    """Files in self.directory say how the programs play; self.bin comes first on the PATH."""

    def setUp(self):
        super().setUp()
        self.bin = self.directory / "bin"
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith("STAGES_")}, "PLAY": str(self.directory),
                            "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def call(self, *words, code=0, cwd=None, **environment):
        done = subprocess.run([str(word) for word in words], cwd=cwd or self.directory, env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done
