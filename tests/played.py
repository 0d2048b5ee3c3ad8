"""A directory for a test, with programs that scripts play, and what a call of a script says there; a wait, a terminal, and options."""

import argparse
import contextlib
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


def given(*options):
    """The paths that these options name on the command line, which must all be there; what else it holds is for unittest."""
    parser = argparse.ArgumentParser()
    for option in options:
        parser.add_argument(f"--{option}", type=pathlib.Path, required=True)
    found, sys.argv[1:] = parser.parse_known_args()
    return [getattr(found, option).resolve() for option in options]


class Played(unittest.TestCase):
    """Files in self.place say how the programs play; self.bin comes first on the PATH."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.bin = self.place / "bin"
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith("STAGES_")}, "PLAY": str(self.place),
                            "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def write(self, name, text):
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def script(self, name, text):
        self.write(name, f"#!/usr/bin/env bash\n{text}\n")
        (self.place / name).chmod(0o755)

    def read(self, name):
        path = self.place / name
        return path.read_text() if path.exists() else ""

    def call(self, *words, code=0, **environment):
        done = subprocess.run([str(word) for word in words], cwd=self.place, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done
