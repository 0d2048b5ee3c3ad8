"""What the tests of the report share: results files, made by running the program, never typed, and the command line.

usage of each of them: NAME_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import copy
import importlib.util
import json
import multiprocessing
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(1, __file__.rsplit("/", 2)[0])
import played

LIMIT = 120  # seconds that one command may take; it is a hang long before
PROGRAM, ROOT = played.given("program", "root")
sys.path.insert(0, str(ROOT / "tools"))


def main(why=""):
    """Exit code 77 where a library is missing, or for another reason."""
    absent = [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]
    if absent:
        why = f"{sys.executable} has no {' and no '.join(absent)}; install python3-matplotlib and python3-jinja2"
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(module="__main__")


class Case(played.Case):
    """A directory for all tests of a class, and samples in it."""

    def setUp(self):
        pass  # it is there

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = pathlib.Path(temporary.name)
        cls.samples = Samples(cls.directory)


class Samples:
    def __init__(self, directory):
        self.directory = directory

    def run(self, name, *words, ranks=None):
        """The results of `stages run --quick WORDS`, as a file of that name; `ranks`: on these numbers of ranks."""
        path = self.directory / name
        start = [ROOT / "tools/ranks.sh", ranks] if ranks else [PROGRAM, "run"]
        done = subprocess.run([*start, "--quick", *words, "--json", path], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT, check=False, env={**os.environ, "STAGES_PROGRAM": str(PROGRAM)})
        if done.returncode != 0:
            raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return path

    def changed(self, name, path, change):
        """A copy of a results file after change(its data)."""
        data = json.loads(path.read_text())
        change(data)
        out = self.directory / name
        out.write_text(json.dumps(data))
        return out

    def everyday(self):
        return self.run("everyday.json", "-m", "gen:uniform:rows=60,cols=60,nnz=600", "gen:stencil:points=5,nx=12,ny=12",
                        "gen:rmat:scale=8,edge_factor=6", "--stage", "01,vendor", "--n-cols", "3,32")

    def ranks(self):
        """Results on 1 and 2 ranks; None where this build or this machine has no MPI."""
        listed = subprocess.run([PROGRAM, "list"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        if "02_mpi/balanced" not in listed or shutil.which("mpirun") is None:
            return None
        return self.run("ranks.json", "-m", "gen:stencil:points=5,nx=12,ny=12", "--op", "spmv,spgemm", "--stage", "01,02", ranks="1,2")

    def weak(self):
        return self.run("weak.json", "--weak", "-m", "gen:stencil:points=5,nx=12,ny=6xR", "--op", "spgemm", "--stage", "01,02", ranks="1,2")

    def swept(self, everyday):
        """The everyday results with an entry of two parameters: the times of the rule, of values on both of its sides, and of a value of the other."""
        def change(data):
            row = next(r for r in data["results"] if "seconds" in r and not r["peer"])
            data["results"] = []
            for values, factor in (("", 1), (":chunk=32", 2), (":chunk=256", 0.5), (":chunk=32,rows=2", 3)):
                one = copy.deepcopy(row) | {"entry": "07_spmm/split_rows" + values, "metrics": {"chunk": {"value": 128 if not values else 1, "unit": ""}}}
                one["seconds"]["run"].update({name: value * factor for name, value in row["seconds"]["run"].items() if name in ("median", "q1", "q3")})
                data["results"].append(one)
        return self.changed("swept.json", everyday, change)

    def report(self, *words):
        """What tools/report.py says to these words, in a fork of this process: it has the libraries, and to import them takes longer than
        most pages."""
        script = ROOT / "tools/report.py"
        for name in ("compare", "ladder", "matrices", "overview", "page", "results", "roofline", "scaling", "steps", "sweeps"):
            importlib.import_module(f"report.{name}")
        with open(os.devnull) as nothing, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            def run():
                for number, file in enumerate((nothing, out, err)):
                    os.dup2(file.fileno(), number)
                os.chdir(self.directory)
                os.environ["STAGES_BUILD"] = str(self.directory / "builds")  # where tests put a program, or none
                sys.argv = [str(script), *map(str, words)]
                runpy.run_path(str(script), run_name="__main__")

            process = multiprocessing.get_context("fork").Process(target=run)
            process.start()
            process.join(LIMIT)
            if process.exitcode is None:
                process.kill()
                raise subprocess.TimeoutExpired([script, *words], LIMIT)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([script, *words], process.exitcode, out.read(), err.read())
