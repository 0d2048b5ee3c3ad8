"""What the tests of the programs share: how one is run, and what is expected of it.

usage of each of them: NAME.py --programs DIRECTORY --root DIRECTORY [unittest options]

DIRECTORY of --programs holds `stages` and the programs of the steps; --root is the source tree. Needs nothing beyond Python's own
library. What the documents tell readers to type is tried by tests/documents. Not for programs with AddressSanitizer, which needs the
address space.
"""

import csv
import functools
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import unittest

sys.path.insert(1, __file__.rsplit("/", 2)[0])
import played

LIMIT = 120  # seconds that one command may take; it is a hang long before

SMALL = "gen:uniform:rows=40,cols=40,nnz=200"
WIDE = "gen:uniform:rows=20,cols=50,nnz=150"
MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2\n1 3 -1\n2 2 1.5\n3 1 4\n"
VECTOR = "%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n"
DENSE = "%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n4\n5\n6\n"
BAD = "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n2 9 1\n"  # an error in its last line

PROGRAMS, ROOT = played.given("programs", "root")


def main():
    unittest.main(module="__main__")


def run(*words, program="stages", env=None, limits=None, **options):
    """Runs a command and returns what it did. `options` are those of subprocess.run."""
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": LIMIT}
    return subprocess.run([str(PROGRAMS / program), *map(str, words)], env={**os.environ, **(env or {})}, preexec_fn=limits, **{**usual, **options})


def in_shell(before, *words, after="", **options):
    """Runs `stages` with these words between what a shell reads before and after it."""
    line = shlex.join([str(PROGRAMS / "stages"), *map(str, words)])
    return run("-c", f"{before} {line} {after}", program="/bin/bash", **options)


def begin(*words, program="stages", env=None, number=None, **options):
    """Starts a command. `number`: a signal that it is not to ignore, whatever this process does."""
    return subprocess.Popen([str(PROGRAMS / program), *map(str, words)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})}, preexec_fn=number and (lambda: signal.signal(number, signal.SIG_DFL)),
                            **{"stdout": subprocess.PIPE, **options})


def ended(process, number=None):
    """What a command that was started said, on its end; `number`: by this signal."""
    if number:
        process.send_signal(number)
    return process.communicate(timeout=LIMIT)


def read_until(process, *words):
    """Reads what a command says on stderr up to a line with all these words."""
    for line in process.stderr:
        if all(word in line for word in words):
            return


@functools.lru_cache
def listed(program="stages"):
    return json.loads(run("list", "--json", program=program).stdout)


def entries(**wanted):
    """Names of the entries with these properties, by `stages list --json`."""
    return [e["name"] for e in listed()["entries"] if all(e[key] == value for key, value in wanted.items())]


def host_entry(operation):
    """An entry of step 1, which every build has."""
    return entries(operation=operation, stage="01_cpu_serial")[0]


def has_ranks():
    """Whether this build has MPI."""
    return bool(entries(stage="02_mpi"))


with_kernels = unittest.skipUnless(entries(stage="03_cuda_naive"), "this build has no kernels")
on_executor = unittest.skipUnless(entries(stage="03_cuda_naive") and listed()["backend"] == "cpu", "no kernels on the executor")


def at_most(what, most):
    """So much of a resource, for a command that is started."""
    return lambda: resource.setrlimit(what, (most, most))


def few_processes(count):
    """So many processes and threads in all, for a command. The limit does not hold for root, so it becomes nobody."""
    def limits():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
    return limits


class Case(played.Case):
    def setUp(self):
        super().setUp()
        self.json, self.csv = self.directory / "out.json", self.directory / "out.csv"
        self.files = ["--json", self.json, "--csv", self.csv]

    def good(self, *words, code=0, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def results(self, *words, **options):
        """What `run` finds out, and what it did."""
        done = self.good("run", *words, "--json", self.json, **options)
        return json.loads(self.json.read_text()), done

    def refused(self, expected, *words, **options):
        """One line that says `expected`, and no file left behind."""
        return self.refuses(lambda: run(*words, **options), f"{options.get('program', 'stages')}: error: ", expected)

    def statuses(self):
        """The context, and of each matrix the status, from both files, which say alike whether they are a part."""
        results = json.loads(self.json.read_text())
        from_json = [(row["problem"]["matrix"], row["status"]) for row in results["results"]]
        with open(self.csv, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if "part" in results["context"]:
            last = rows.pop()
            self.assertEqual((last["entry"], last["reason"]), ("", results["context"]["part"] + "; what is not above was not reached"))
        self.assertEqual([(row["matrix"], row["status"]) for row in rows], from_json)
        return results["context"], set(from_json)
