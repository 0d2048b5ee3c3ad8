"""The program on several ranks, as a user meets it: --ranks, --weak, an outer mpirun, errors, no MPI at all."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MATRIX = "gen:rmat:scale=9,edge_factor=6"
FAST = ["--quick", "--time-budget", "0.005"]


class Checks:
    def __init__(self, program, mpirun, directory):
        self.program, self.mpirun, self.directory = program, mpirun, pathlib.Path(directory)
        self.failures = 0

    def run(self, *arguments, ranks=0, code=0, limit=60, **environment):
        words = [self.program, *arguments]
        if ranks:
            words = [self.mpirun, "-q", "-n", str(ranks), *words]
        start = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, env={**os.environ, **environment})
        took = time.monotonic() - start
        what = " ".join(words[-6:])
        if done.returncode != code:
            self.say(f"{what}: exit code {done.returncode}, not {code}: {done.stderr[-500:]}")
        print(f"{took:5.1f} s  {what}", flush=True)
        return done

    def expect(self, good, what):
        if not good:
            self.say(what)

    def say(self, what):
        self.failures += 1
        print("FAILED: " + what, flush=True)

    def results(self, *arguments, **more):
        file = self.directory / "results.json"
        file.unlink(missing_ok=True)
        self.run("run", *arguments, *FAST, "--json", str(file), **more)
        return json.loads(file.read_text())["results"] if file.exists() else []

    def sweep(self):
        rows = self.results("-m", MATRIX, "--op", "spgemm", "--stage", "01,02", "--ranks", "2,1")
        on_ranks = [r for r in rows if r["mpi"]]
        self.expect(sorted({r["ranks"] for r in on_ranks}) == [1, 2], "the sweep lacks a number of ranks")
        self.expect(any(r["entry"].startswith("01_") for r in rows), "the sweep has no serial entry")
        timed = [r for r in on_ranks if "seconds" in r]
        self.expect(len(timed) >= 6, f"only {len(timed)} rows on ranks were timed")
        serial = min(r["seconds"]["run"]["median"] for r in rows if r["entry"].startswith("01_") and "seconds" in r)
        for r in timed:
            ratio = serial / r["seconds"]["run"]["median"]
            self.expect(abs(r["speedup_serial"] / ratio - 1) < 2e-4, f"{r['entry']}: speed-up {r['speedup_serial']}")
            for clock in ("compute_seconds", "distributed_seconds", "root_to_root_seconds", "bytes_moved", "imbalance",
                          "compute_imbalance", "cores", "ranks_per_core"):
                self.expect(r["metrics"].get(clock, {}).get("value") is not None, f"{r['entry']} has no {clock}")

    def weak(self):
        even = self.run("run", "-m", "gen:stencil:points=5,nx=20,ny=20xR", "gen:stencil:points=5,nx=40,ny=40xR", "--op", "spgemm",
                        "--filter", "distributed", "--ranks", "1,2", "--weak", *FAST)
        self.expect("products a rank" not in even.stderr, even.stderr[-300:])
        rows = self.results("-m", "gen:uniform:rows=500xR,cols=500xR,per_row=6", "--op", "spgemm", "--stage", "01,02",
                            "--filter", "adaptive|distributed", "--ranks", "1,2", "--weak")
        sizes = {r["ranks"]: r["problem"]["rows"] for r in rows if r["mpi"]}
        self.expect(sizes == {1: 500, 2: 1000}, f"rows by ranks: {sizes}")
        self.expect(all(r["speedup_serial"] for r in rows if r["mpi"]), "a row without its serial time")
        uneven = self.run("run", "-m", "gen:uniform:rows=500,cols=500,per_row=2xR", "--op", "spgemm", "--filter", "distributed",
                          "--ranks", "1,2", "--weak", *FAST)
        self.expect("products a rank" in uneven.stderr, "unequal shares are not told of")
        self.run("run", "-m", MATRIX, "--ranks", "1,2", "--weak", code=2)
        self.run("run", "-m", MATRIX, "--weak", code=2)

    def outer_mpirun(self):
        for mode in (["--op", "spmv", "--mode", "chain", "--products", "5"], ["--op", "spmm", "--beta", "0.5"],
                     ["--op", "spgemm", "--destination", "distributed"]):
            rows = self.results("-m", MATRIX, *mode, "--stage", "01,02", ranks=3)
            timed = [r for r in rows if r["mpi"] and "seconds" in r]
            self.expect(timed and all(r["ranks"] == 3 and r["speedup_serial"] for r in timed), f"{mode}: {len(timed)} rows")
        rows = self.results("-m", MATRIX, "--op", "spmv", "--stage", "02", "--require-clock", "1700", ranks=2)
        self.expect(any("seconds" in r for r in rows), "--require-clock stops ranks that need no GPU, and so have no clock of one")
        listed = self.run("list", ranks=3).stdout
        self.expect(listed.count("02_mpi/balanced") == 1, "every rank prints the list")

    def several_gpus(self):
        """Each process has a GPU or an executor; on the executor the rows are checked and have no times."""
        if "multi_blocks" not in self.run("list").stdout:
            return  # a build without CUDA
        for destination in ("host", "distributed", "one-gpu"):
            rows = self.results("-m", "gen:rmat:scale=7,edge_factor=4", "--op", "spgemm", "--filter", "08_.*/(binned|multi_)", "--ranks", "1,2,3",
                                "--destination", destination)
            several = {(r["entry"].split("/")[1], r["ranks"]): r["status"] for r in rows if r["mpi"]}
            gather = "skipped" if destination == "one-gpu" else "good"
            for ranks in (1, 2, 3):
                self.expect(several.get(("multi_blocks", ranks)) == "good", f"C {destination}: multi_blocks on {ranks}: {several}")
                for name in ("multi_gather", "multi_gather_hash"):
                    self.expect(several.get((name, ranks)) == gather, f"C {destination}: {name} on {ranks}: {several}")

    def errors(self):
        bad = self.directory / "bad.mtx"
        bad.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\nbroken\n")
        for arguments, ranks in ((["-m", str(bad)], 3), (["-m", "nowhere.mtx"], 3), (["--bogus"], 3),
                                 (["-m", str(bad), "--ranks", "2"], 0)):
            done = self.run("run", *arguments, *FAST, ranks=ranks, code=2, limit=20)
            said = [line for line in done.stderr.splitlines() if "error" in line]
            self.expect(len(said) == 1, f"{arguments}: {len(said)} messages: {said}")
        self.run("run", "-m", MATRIX, "--ranks", "2", code=2, STAGES_MPIRUN="/nowhere/mpirun")
        self.run("run", "-m", MATRIX, "--ranks", "2", code=2, STAGES_MPI_NODES="many")

    def other_starters(self):
        """STAGES_MPIRUN: its words, then -n N and the program; nothing that only Open MPI's mpirun knows."""
        said = self.directory / "said"
        srun = self.directory / "srun"
        # Played: it takes what srun takes, and starts the ranks by mpirun.
        srun.write_text(f"""#!/usr/bin/env bash
echo "$*" >> '{said}'
[ "$1" = --mpi=pmix ] && [ "$2" = -n ] || {{ echo "srun: invalid option" >&2; exit 1; }}
exec '{self.mpirun}' -q -n "$3" "${{@:4}}"
""")
        alone = self.directory / "alone"
        alone.write_text("""#!/usr/bin/env bash
for ((k = 0; k < $2; ++k)); do "${@:3}" & done
wait
""")
        for path in (srun, alone):
            path.chmod(0o755)
        rows = self.results("-m", MATRIX, "--op", "spgemm", "--stage", "02", "--ranks", "1,2", STAGES_MPIRUN=f"{srun}  --mpi=pmix ")
        timed = {r["ranks"] for r in rows if r["mpi"] and "seconds" in r}
        self.expect(timed == {1, 2}, f"by srun the ranks were {timed}")
        lines = said.read_text().splitlines() if said.exists() else []
        self.expect([line.split()[:3] for line in lines] == [["--mpi=pmix", "-n", n] for n in "12"], f"srun was told {lines}")
        # Ran elsewhere, or not at all.
        done = self.run("run", "-m", MATRIX, "--op", "spgemm", "--stage", "02", "--ranks", "2", *FAST, code=2, STAGES_MPIRUN="true")
        self.expect("left no results in" in done.stderr and "TMPDIR" in done.stderr, f"ranks elsewhere: {done.stderr[-300:]}")
        for ranks in ("1", "2"):
            done = self.run("run", "-m", MATRIX, "--op", "spgemm", "--stage", "02", "--ranks", ranks, *FAST, code=2, STAGES_MPIRUN=str(alone))
            self.expect("did not find each other" in done.stderr, f"programs on their own: {done.stderr[-300:]}")

    def without_ranks(self):
        """Without --ranks and mpirun nothing may start MPI: the entries say what they need."""
        rows = self.results("-m", MATRIX, "--stage", "02", "--op", "spgemm", code=77)
        self.expect(rows and all(r["status"] == "skipped" and "--ranks" in r["reason"] for r in rows), "no reason given")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpirun", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        checks = Checks(arguments.program, arguments.mpirun, directory)
        for part in (checks.sweep, checks.weak, checks.outer_mpirun, checks.several_gpus, checks.errors, checks.other_starters,
                     checks.without_ranks):
            part()
    sys.exit(1 if checks.failures else 0)


if __name__ == "__main__":
    main()
