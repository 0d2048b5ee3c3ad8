#!/usr/bin/env python3
"""Several processes as a user meets them: --ranks, tools/ranks.sh, an mpirun outside, multiply, the look at every step; and how ranks end."""

import json
import os
import resource
import shlex
import shutil
import signal
import time
import unittest

from programs import (BAD, LIMIT, MATRIX, PROGRAMS, ROOT, SMALL, WIDE, Case, at_most, begin, ended, entries, few_processes, has_ranks, host_entry,
                      main, read_until, run, with_kernels)
from played import wait_until

GRAPH = "gen:rmat:scale=9,edge_factor=6"
FAST = ["--quick", "--time-budget", "0.005"]
ON_RANKS = ["run", "-m", SMALL, "--op", "spgemm", "--stage", "02", "--ranks", "2"]
MULTIPLY = ["multiply", "--ranks", "2", "--with", "02_mpi/balanced", SMALL, SMALL, "-o"]
# The first matrix is done at once, the second takes until the run is ended.
LONG = ["-m", SMALL, "gen:uniform:rows=20000,cols=20000,per_row=50", "--op", "spgemm", "--filter", "02_mpi/balanced",
        "--max-noise", "1e-9", "--time-budget", "30"]


def setUpModule():
    if not has_ranks():
        raise unittest.SkipTest("this build has no MPI")


class Ranks(Case):
    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir()
        self.in_temporary = {"TMPDIR": str(self.temporary)}

    def starter(self, text):
        """STAGES_MPIRUN for a script."""
        return {"STAGES_MPIRUN": str(self.script("starter", text))}

    def sweep(self, numbers, *words, code=0, env=None):
        """What tools/ranks.sh leaves in the file, and what it did."""
        done = self.good(numbers, *words, *self.files, program=ROOT / "tools/ranks.sh", code=code,
                         env={"STAGES_PROGRAM": str(PROGRAMS / "stages"), **self.in_temporary, **(env or {})})
        self.assertEqual(list(self.temporary.iterdir()), [])
        return json.loads(self.json.read_text()) if self.json.exists() else None, done

    def under_mpirun(self, ranks, *words, code=0):
        return self.good("-q", "--oversubscribe", "-n", ranks, PROGRAMS / "stages", *words, program=shutil.which("mpirun"), code=code,
                         env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


class Runs(Ranks):
    def test_several_numbers(self):
        """Numbers in any order; entries for one process once; a file, a table and facts of the machine for each number."""
        self.json.write_text("old")
        results, done = self.sweep("2,1,2", "-m", GRAPH, WIDE, "--op", "spgemm", "--stage", "01,02", *FAST)
        rows, context = results["results"], results["context"]
        self.assertEqual({r["status"] for r in rows}, {"good"})
        on_graph = sorted((r["entry"], r["ranks"]) for r in rows if r["mpi"] and r["problem"]["matrix"] == GRAPH)
        self.assertEqual(on_graph, sorted((entry, ranks) for entry in entries(stage="02_mpi", operation="spgemm") for ranks in (1, 2)))
        self.assertEqual(sorted(r["entry"] for r in rows if not r["mpi"]), sorted(2 * entries(stage="01_cpu_serial", operation="spgemm")))
        self.assertEqual([r["problem"]["matrix"] for r in rows], sorted(r["problem"]["matrix"] for r in rows), "problems are mixed")
        self.assertLessEqual({f"ranks={n}: {key}" for n in (1, 2) for key in ("copy_bandwidth_bytes_per_second", "cores", "mpi", "nodes")},
                             set(context))
        self.assertRegex(context["command"], r"--ranks 1 && .* --ranks 2 --append --ranks-only$")
        self.statuses()  # both files say the same
        self.assertEqual(done.stdout.count(", on ranks; speed-ups are over"), 2, done.stdout)
        for row in (row for row in rows if row["mpi"]):
            self.assertTrue(row["speedup_serial"])
            for clock in ("compute_seconds", "distributed_seconds", "root_to_root_seconds", "bytes_moved", "imbalance", "compute_imbalance",
                          "cores", "ranks_per_core"):
                self.assertIsNotNone(row["metrics"].get(clock, {}).get("value"), (row["entry"], clock))

    def test_problems_that_grow_with_the_ranks(self):
        results, _ = self.sweep("1,2", "-m", "gen:uniform:rows=500xR,cols=500xR,per_row=6", "--op", "spgemm", "--filter", "01.*adaptive|distributed",
                                "--weak", *FAST)
        self.assertEqual({(r["ranks"], r["problem"]["rows"]) for r in results["results"] if r["mpi"]}, {(1, 500), (2, 1000)})
        self.assertTrue(all(r["speedup_serial"] for r in results["results"] if r["mpi"]))
        self.under_mpirun(2, "run", "-m", "gen:eye:n=50xR", "--op", "spgemm", "--filter", "distributed", "--weak", *FAST, "--json", self.json)
        self.assertEqual({r["problem"]["rows"] for r in json.loads(self.json.read_text())["results"]}, {100})

    def test_an_mpirun_outside(self):
        for mode in (["--op", "spmv", "--mode", "chain", "--products", "5"], ["--op", "spmm", "--beta", "0.5"], ["--op", "spgemm", "--destination", "distributed"]):
            self.under_mpirun(3, "run", "-m", GRAPH, *mode, "--stage", "01,02", *FAST, "--json", self.json)
            timed = [r for r in json.loads(self.json.read_text())["results"] if r["mpi"] and "seconds" in r]
            self.assertTrue(timed and all(r["ranks"] == 3 and r["speedup_serial"] for r in timed), mode)
        # Ranks that need no GPU have no clock of one.
        self.under_mpirun(2, "run", "-m", GRAPH, "--op", "spmv", "--stage", "02", "--require-clock", "1700", *FAST, "--json", self.json)
        self.assertTrue(any("seconds" in r for r in json.loads(self.json.read_text())["results"]))
        self.assertEqual(self.under_mpirun(3, "list").stdout.count("02_mpi/balanced"), 1)
        bad = self.write("bad.mtx", BAD)
        for words in (["-m", bad], ["-m", "nowhere.mtx"], ["--bogus"], ["-m", GRAPH, "--ranks", "2"]):
            done = self.under_mpirun(3, "run", *words, *FAST, code=2)
            self.assertEqual(sum("error" in line for line in done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("--ranks 2: there are 3 ranks already; leave it away under mpirun", done.stderr)

    def test_chains(self):
        """More ranks than rows, too, and rounds that leave some or all of them nothing. All leave C distributed, too."""
        places = 2 * len(entries(stage="02_mpi", operation="spgemm"))
        for matrix, ranks in ((GRAPH, 3), ("gen:banded:n=3,half_bandwidth=1", 7)):
            chain = ["-m", matrix, "--op", "spgemm", "--mode", "chain", "--products", "3", "--destination", "host,distributed"]
            self.under_mpirun(ranks, "run", *chain, "--stage", "01,02", *FAST, "--max-work", "1e9", "--json", self.json)
            rows = [r for r in json.loads(self.json.read_text())["results"] if r["mpi"]]
            good = [r for r in rows if r["status"] == "good"]
            self.assertEqual(len(good), 3 * places, [(r["entry"], r["reason"]) for r in rows])
            self.assertEqual({r["problem"]["options"] for r in good}, {f"{place}round {r} of 3" for place in ("", "C distributed, ") for r in (1, 2, 3)})
            self.assertTrue(all(r["speedup_serial"] for r in good))

    @with_kernels
    def test_several_gpus(self):
        """Each process has a GPU or an executor; on the executor the rows are checked and have no times."""
        for destination in ("host", "distributed", "one-gpu"):
            results, _ = self.sweep("1,2,3", "-m", "gen:rmat:scale=7,edge_factor=4", "--op", "spgemm", "--filter", "08_.*/multi_", "--destination", destination, *FAST)
            gather = "skipped" if destination == "one-gpu" else "good"
            of = {"multi_blocks": "good", "multi_gather": gather, "multi_gather_hash": gather}
            self.assertEqual({(r["entry"].split("/")[1], r["ranks"]): r["status"] for r in results["results"]},
                             {(name, ranks): status for ranks in (1, 2, 3) for name, status in of.items()}, destination)

    def test_other_starters(self):
        """STAGES_MPIRUN: its words, then -n N and the program; nothing that only Open MPI's mpirun knows."""
        said = self.directory / "said"
        srun = self.starter(f'echo "$*" >> {said}\n[ "$1 $2" = "--mpi=pmix -n" ] || exit 9\nexec mpirun -q -n "$3" "${{@:4}}"\n')["STAGES_MPIRUN"]
        results, _ = self.results(*ON_RANKS[1:], *FAST, env={"STAGES_MPIRUN": f"{srun}  --mpi=pmix "})
        self.assertEqual({r["ranks"] for r in results["results"]}, {2})
        self.assertEqual([line.split()[:3] for line in said.read_text().splitlines()], [["--mpi=pmix", "-n", "2"]])
        old = self.write("old", "old")
        for variables, code in (("", "%1"), ("PMI_RANK=$k PMI_SIZE=$2", "")):  # that of the first, and none at all
            alone = self.starter(f'[ -z "$ALONE" ] || exit 9  # none starts more of them\nexport ALONE=1\n'
                                 f'for ((k = 0; k < $2; ++k)); do {variables} "${{@:3}}" & done\nwait {code}\n')
            for words in ((*ON_RANKS, *FAST, "--json"), MULTIPLY):
                said = self.good(*words, old, code=2, env=alone).stderr
                self.assertEqual(said.count("programs that did not find each other; it must be one for this build's MPI"), 2, said)
                self.assertEqual(old.read_text(), "old")

    def test_limits_hold_on_ranks(self):
        """Their exit code comes through, too. Without --ranks and mpirun nothing may start MPI: the entries say what they need."""
        for code, words in ((77, ["--max-work", "1"]), (0, [])):
            self.good(*ON_RANKS, *FAST, *words, code=code)
            self.sweep("1,2", *ON_RANKS[1:-2], *FAST, *words, code=code)
        results, _ = self.results("-m", "gen:uniform:rows=1,cols=2147483647,nnz=1", *ON_RANKS[3:], code=77,
                                  limits=at_most(resource.RLIMIT_AS, 6 << 30))
        self.assertEqual({row["ranks"] for row in results["results"]}, {2})
        results, _ = self.results("-m", GRAPH, "--stage", "02", "--op", "spgemm", code=77)
        self.assertTrue(all(r["status"] == "skipped" and "--ranks" in r["reason"] for r in results["results"]))

    def test_results_that_are_added_to(self):
        words = ["-m", SMALL, "--op", "spmv", "--filter", "01_cpu_serial/csr_spmv$", *FAST]
        self.refused("--append goes with --json FILE", "run", *words, "--append")
        self.results(*words, "--append")  # to a file that is not there yet
        results, done = self.results(*words[:1], WIDE, *words[2:], "--append")
        self.assertEqual([r["problem"]["matrix"] for r in results["results"]], [SMALL, WIDE])
        self.assertIn(SMALL, done.stdout)
        kept = self.json.read_text().replace(results["context"]["source_digest"], "another")
        self.json.write_text(kept)
        self.refused("only on the same machine, by the same sources: source_digest was another", "run", *words, "--append", "--json", self.json)
        self.assertEqual(self.json.read_text(), kept)
        self.json.write_text("[]")
        self.refused("out.json: no results are to be had from it", "run", *words, "--append", "--json", self.json)

    def test_a_look_at_every_step_has_ranks(self):
        words = ["--stage", "02", "--type", "f64", "--filter", "balanced", "--max-work", "1e9"]
        results, done = self.results(*words, env=self.in_temporary)
        self.assertEqual({(r["entry"], r["problem"]["type"]) for r in results["results"]}, {("02_mpi/balanced", "f64")})
        self.assertLessEqual({1, 2}, {r["ranks"] for r in results["results"]})
        self.assertLessEqual({"ranks=1: cores", "ranks=2: cores"}, set(results["context"]))
        self.assertEqual(list(self.temporary.iterdir()), [])
        for starter, said in (("false", "left no results, and exit code 1"), ("/nowhere/mpirun", "there is no program /nowhere/mpirun")):
            results, done = self.results("--stage", "02,03", "--filter", "balanced|dense", code=2 if starter == "false" else 0, env={"STAGES_MPIRUN": starter})
            missing = {line["step"]: line["missing"] for line in results["steps"]}
            self.assertIn(said, missing["02_mpi"])
            self.assertIn(said, done.stdout)
            self.assertEqual(missing.get("03_cuda_naive", ""), "")

    def test_multiply(self):
        """By --ranks, and under mpirun, entries for several ranks and others."""
        a, c = self.write("a.mtx", MATRIX), self.directory / "c.mtx"
        product = lambda: sorted(line for line in c.read_text().splitlines()[1:] if not line.startswith("%"))
        self.good("multiply", "--with", host_entry("spgemm"), a, a, "-o", c)
        alone = product()
        on_ranks = [entry for entry in entries(operation="spgemm") if entry.startswith(("02_mpi/", "08_spgemm_multigpu/multi_"))]
        for entry in on_ranks:
            c.unlink()
            self.assertIn("checked", self.good("multiply", "--with", entry, a, a, "-o", c, "--ranks", "3").stdout)
            self.assertEqual(product(), alone, entry)
        (self.directory / "--ranks").write_text(MATRIX)  # a file, where it stands behind --
        self.good("multiply", "--ranks", "2", "-o", c, "--with", on_ranks[0], "--", "--ranks", "--ranks", cwd=self.directory)
        for entry in (on_ranks[0], host_entry("spgemm")):
            c.unlink()
            done = self.under_mpirun(2, "multiply", "--with", entry, a, a, "-o", c)
            self.assertEqual(done.stdout.count("c.mtx: 3 x 3"), 1, done.stdout)
        bad = self.write("bad.mtx", BAD)
        done = self.good("multiply", "--with", on_ranks[0], bad, bad, "-o", c, "--ranks", "2", code=2)
        self.assertEqual(done.stderr.count("bad.mtx:4"), 1, done.stderr)


class Refused(Ranks):
    def test_before_anything_runs(self):
        a = self.write("a.mtx", MATRIX)
        multiply = ["multiply", a, a, "-o", self.directory / "c.mtx", "--with"]
        several = "--ranks takes one number; tools/ranks.sh runs on several, and puts the results together"
        self.all_refused(
            (several, *ON_RANKS[:-1], "1,2,4"),
            (several, *multiply, "02_mpi/balanced", "--ranks", "1,2"),
            ("--ranks", *ON_RANKS[:-1], "0"),
            ("runs on one process", *multiply, host_entry("spgemm"), "--ranks=2"),
            ("none of the entries chosen runs on ranks; `stages list` shows which do", "run", "-m", SMALL, "--stage", "01", "--ranks", "2"),
            ("--weak goes with --ranks", "run", "-m", "gen:eye:n=9xR", "--weak"),
            ("--weak: no size grows with the ranks; write xR behind", *ON_RANKS, "--weak"),
            (r"bad\.mtx:1: ", "run", "-m", self.write("bad.mtx", "hello"), *ON_RANKS[3:]),
            ("go with -m", "run", "--ranks", "2"))
        for program in ("/nowhere", str(ROOT), "/etc/passwd"):
            self.refused(f"there is no program {program}", *ON_RANKS, env={"STAGES_MPIRUN": program})
        self.refused("TMPDIR=/nowhere: there is no such directory; name another or leave it out", *ON_RANKS, env={"TMPDIR": "/nowhere"})
        for what, most in ((resource.RLIMIT_NOFILE, 26), (resource.RLIMIT_FSIZE, 8192)):  # where Open MPI would wait for ever
            self.refused("2 ranks do not start: MPI needs 40 open files .* raise what is low", *ON_RANKS, limits=at_most(what, most))

    def test_numbers_of_the_script(self):
        for words in ([], ["2"], ["1,x", "-m", SMALL], ["1,,2", "-m", SMALL], ["0", "-m", SMALL], ["-m", SMALL]):
            done = run(*words, program=ROOT / "tools/ranks.sh")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "usage: tools/ranks.sh 1,2,4 OPTIONS of stages run\n"), words)

    def test_without_processes(self):
        if os.geteuid() != 0:
            self.skipTest("else the user's other processes count")
        self.refused("cannot start mpirun: .*; close other programs, or raise `ulimit -u`", *ON_RANKS, limits=few_processes(2))

    def test_shared_memory(self):
        """Where there is none the run ends; an entry that it is too little for is skipped, and the others run on all matrices."""
        done = self.good(*ON_RANKS, "--quick", *self.files, code=2, env={"OMPI_MCA_osc_sm_backing_directory": "/nonexistent"})
        self.assertNotIn("terminate", done.stderr)
        self.assertEqual(done.stderr.count("stages: error on rank 0: allocating shared memory"), 1, done.stderr)
        self.assertFalse(self.json.exists())
        self.good(*ON_RANKS, "--quick", code=2, env={"STAGES_MPI_NODES": "many"})
        if os.geteuid() != 0:
            self.skipTest("only root can make it little")
        words = shlex.join(map(str, [PROGRAMS / "stages", "run", "-m", SMALL, "gen:stencil:points=5,nx=60", "--quick", "--max-work", "1e9", *ON_RANKS[3:], *self.files]))
        done = run("-m", "bash", "-c", f"mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 99; {words}", program=shutil.which("unshare"))
        if done.returncode in (1, 99):
            self.skipTest("nothing can be mounted here")
        self.assertEqual(done.returncode, 0, done.stderr)
        skipped = [row for row in json.loads(self.json.read_text())["results"] if row["status"] != "good"]
        self.assertEqual({row["entry"] for row in skipped}, {"02_mpi/shared_window"}, done.stdout)
        self.assertRegex(skipped[0]["reason"], r"bytes of shared memory are needed and /dev/shm has room for")
        self.assertIn(("gen:stencil:points=5,nx=60", "good"), self.statuses()[1])


class Ended(Ranks):
    """Runs that end before their time: an exit code, a line, and what was found out until then."""

    def test_how_ranks_end_is_told(self):
        killed = r"the run on 2 ranks was ended by SIGKILL \(Killed\), as the system does where memory runs out; take a smaller matrix"
        c = self.directory / "c.mtx"
        for text, said in (("exit 137", killed), ("kill -9 $$", killed), ("exit 139", r"was ended by SIGSEGV .*; see its message above"),
                           ("exit 9", "the run on 2 ranks ended with exit code 9; see its message above")):
            with self.subTest(text):
                starter = self.starter(text)
                self.refused(said, *ON_RANKS, env=starter)
                self.refused(said, *MULTIPLY, c, env=starter)
        for words, left in (([*ON_RANKS, "--json"], self.json), (MULTIPLY, c)):
            self.refused(f"starter.* started no rank that left .*{left.name}; name another program in STAGES_MPIRUN", *words, left,
                         env=self.starter("exit 0"))
        for code in (0, 1, 2, 77):  # those of the program
            self.assertEqual(run(*ON_RANKS, env=self.starter(f"exit {code}")).returncode, code)

    def test_a_rank_that_is_killed(self):
        """The exit code and the line, from mpirun itself; what rank 0 has found out is kept."""
        numbers = self.directory / "numbers"
        starter = self.starter(f'exec mpirun -q -n 2 bash -c "echo \\$OMPI_COMM_WORLD_RANK \\$\\$ >> {numbers}; exec \\"\\$@\\"" rank "${{@:3}}"\n')
        process = begin("run", *LONG, "--ranks", "2", *self.files, env=starter)
        read_until(process, SMALL)
        time.sleep(0.3)
        os.kill(int(dict(line.split() for line in numbers.read_text().splitlines())["1"]), signal.SIGKILL)
        _, said = ended(process)
        self.assertEqual(process.returncode, 2, said)
        self.assertEqual(said.count("stages: error: --ranks: the run on 2 ranks was ended by SIGKILL"), 1, said)
        context, statuses = self.statuses()
        self.assertIn("the run was ended by SIG", context["part"])
        self.assertIn((SMALL, "good"), statuses)

    def ended_by(self, number, process):
        """Of a run that is sent a signal in the middle: what was found out by then is kept as a part, whole, and nothing stays in TMPDIR. Returns the rows."""
        time.sleep(0.3)
        said, _ = ended(process, number)
        self.assertIn("this is a part", said)
        context, _ = self.statuses()
        self.assertEqual(context["part"], "the run was ended by SIGTERM")  # which is what mpirun says to ranks
        self.assertEqual(list(self.temporary.iterdir()), [])
        return {(r["problem"]["matrix"], r["ranks"]) for r in json.loads(self.json.read_text())["results"] if r["status"] == "good"}

    def test_a_signal(self):
        """To a run on ranks, and to the loop over their numbers."""
        shutil.copy(ROOT / "tools/ranks.sh", self.directory)
        longer = "gen:uniform:rows=20000,cols=20000,per_row=20"  # longer than mpirun takes to end its ranks, some 4 s
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                process = begin("run", *LONG, "--ranks", "2", *self.files, env=self.in_temporary, number=number)
                read_until(process, SMALL)
                self.assertIn((SMALL, 2), self.ended_by(number, process))
                self.assertEqual(process.returncode, -number)
                process = begin("1,2", "-m", SMALL, longer, *LONG[3:-1], "6", *self.files, program=self.directory / "ranks.sh",
                                env={"STAGES_PROGRAM": str(PROGRAMS / "stages"), **self.in_temporary}, number=number)
                read_until(process, longer)
                read_until(process, SMALL)  # with the second number
                self.assertLessEqual({(SMALL, 1), (SMALL, 2), (longer, 1)}, self.ended_by(number, process))
                self.assertEqual(process.returncode, 128 + number)

    def test_a_number_that_fails_in_the_loop(self):
        """What was done before it is kept."""
        for code in (0, 1, 9, 137):
            results, done = self.sweep("1,2,3", *ON_RANKS[1:-2], *FAST, code=2, env=self.starter(f'[ "$2" = 2 ] && exit {code}\nexec mpirun -q "$@"\n'))
            self.assertEqual({r["ranks"] for r in results["results"]}, {1})
            self.assertIn(f"ranks: the run on 2 ranks ended with exit code {code if code == 1 else 2}; what was done before it is kept", done.stderr)
            self.assertIn("speed-ups are over", done.stdout)

    def test_what_is_killed_leaves_nothing(self):
        """Nothing of Open MPI's stays of an mpirun that is killed; what a killed run leaves is removed by the next, but not what only has such a name."""
        number = self.directory / "number"
        self.script("mpirun", f'echo $$ > {number}; exec {shutil.which("mpirun")} "$@"\n')
        process = begin("run", *LONG, "--ranks", "2", env={**self.in_temporary, "PATH": f"{self.directory}:{os.environ['PATH']}"})
        read_until(process, SMALL)
        os.kill(int(number.read_text()), signal.SIGKILL)
        _, errors = ended(process)
        self.assertEqual(process.returncode, 2, errors)
        self.assertIn("--ranks: the run on 2 ranks was ended by SIGKILL", errors)
        self.assertEqual(list(self.temporary.iterdir()), [])
        (self.temporary / "stages-course").mkdir()
        process = begin("run", *LONG, "--ranks", "2", env=self.in_temporary)
        read_until(process, SMALL)
        ended(process, signal.SIGKILL)
        self.assertEqual(len(list(self.temporary.iterdir())), 2, "nothing was left")
        self.good(*MULTIPLY, self.directory / "c.mtx", env=self.in_temporary)
        self.assertEqual(list(self.temporary.iterdir()), [self.temporary / "stages-course"])

    def test_what_starts_ranks_ends_with_the_program(self):
        """Also where it does not hear a signal at once."""
        number = self.directory / "number"
        for sent, text in ((signal.SIGTERM, "exec sleep 300"), (signal.SIGINT, "trap 'sleep 2; exit 1' TERM; sleep 300 & wait")):
            process = begin(*ON_RANKS, env={**self.in_temporary, **self.starter(f"echo $$ > {number}.new; mv {number}.new {number}; {text}\n")}, number=sent)
            wait_until(number.exists)
            process.send_signal(sent)
            self.assertEqual(process.wait(timeout=LIMIT), -sent)
            wait_until(lambda: not os.path.exists(f"/proc/{int(number.read_text())}"), 10)  # until somebody has asked how it ended
            self.assertEqual(list(self.temporary.iterdir()), [])
            process.communicate()
            number.unlink()


if __name__ == "__main__":
    main()
