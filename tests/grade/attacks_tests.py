#!/usr/bin/env python3
"""A student's file may do what it likes without harm to the grader.

usage: attacks_tests.py --program STAGES --root DIRECTORY [unittest options]
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
from graded import PROGRAM, ROOT, STAGE, Case, Misbehaving, confined, left_of, run
from answers import exercises
from played import wait_until

# What a file may try instead of multiplying, and what its author is told. The longest comes first.
ATTACKS = {
    "hang_at_start": "before the first case it hangs",
    # The attacks of a review: a smaller exam, forged notes, a definition of the judge's own names (misbehaving.cu has one
    # always), what is multiplied where nobody looks at the clock, and what reaches out of the process.
    "shrink": "is 0, expected",
    "zeros": "is 0, expected",
    "forge": "before the first case it ends the program",
    "in_fetch": "it is the product of the first: kept, or made by load, reset or fetch$",
    "in_load": "kept, or made by load, reset or fetch",
    "previous": "it returns the previous answer, whatever is loaded$",
    "attack:daemon": "is NaN: not written",
    "attack:fork_bomb": "throws|hangs|memory|crashes|ends the program|answers",  # all of them speak at once
    "attack:flood": "writes more than 16 MB of text",
    "attack:disk": "no more disk|writes more than 1 GB to the disk|hangs",
    "attack:network": "is NaN: not written",
    "attack:read": "is NaN: not written",
    "attack:write": "is NaN: not written",
    # And others.
    "attack:kill": "is NaN: not written|crashes|ends the program",
    "attack:debug": "is NaN: not written",
    "attack:root": "is NaN: not written",
    "attack:threads": "throws: Resource temporarily unavailable|crashes|ends the program|memory",
    "attack:memory": "memory",
    "attack:memory_of_a_child": "memory|hangs",
    "attack:long_text": "^[^\n\033]*throws: +\\.\\.\\.$",
    "attack:longer_text": "answers with 50000000 bytes",
    "attack:long_summary": "ends the program|a{300}\\.\\.\\.",
    "attack:throw_a_number": "throws: something that is no std::exception",
    "attack:stop": "hangs",
    "attack:hang_up": "hangs up without ending",
    "attack:nonsense": "answers what is no answer",
    "attack:huge": "answers with 18446744073709551615 bytes",
    "attack:ahead": "answers what is no answer|is NaN|the result is",
    "attack:no_result": "answers what is no result",
    "attack:drip": "hangs|answers what is no answer",
    "only_once": "is NaN: not written|ends the program, with exit code 3",
    "another_shape": "the result is 1073741824 x",
    "exit": "ends the program",
    "abort": "crashes: SIGABRT|AddressSanitizer|ABRT",
}


# Those that tools/verify-gpu.sh tries on a GPU.
ON_A_GPU = ["zeros", "in_fetch", "in_load", "previous", "attack:flood", "attack:memory"]


# What a right file may try where its kernels are counted, or multiplied elsewhere than in run().
COUNTED = {
    "counted:copies": "its kernels read 0 bytes in run\\(\\), and such a product needs [0-9,]+ at least",
    "counted:copies_by_kernel": "its kernels read [0-9,]+ bytes in run\\(\\), and such",
    "counted:on_the_host": "its kernels read 0 bytes in run",
    "counted:another_stream": "goes on in a stream that nobody waits for",
    "counted:unseen": "its kernels read 0 bytes in run",
    "counted:nothing": "its kernels read 0 bytes in run",
    "counted:less": "its kernels read (32|128) bytes in run",
    "counted:no_stores": "its kernels write 0 bytes in run",
    "counted:huge": "its counts are none",
    "counted:contradiction": "its counts are none",
    "counted:noise": "answers what are no counts",
    "counted:endless": "answers what are no counts: a message ends too early",
    "counted:much": "answers with 50000000 bytes, where 4000000 are the most",
    "counted:crash": "crashes",
    "counted:hang": "hangs",
    "counted:throw": "throws: it is being counted",
    "counted:wrong": "is NaN: not written",
}


# What a file for the host may leave to be done elsewhere than in run() (misbehaving_host.cpp).
ON_THE_HOST = {
    "host:in_load": "it is the product of the first: kept, or made by load, reset or fetch$",
    "host:copied_in_load": r"^\S+ f(32|64): run\(\) multiplies what load\(\) has kept; it has to read the operands itself$",
    "host:in_next_load": "is NaN: not written",
    "host:in_fetch": r"where it is timed: run\(\) takes [0-9.e-]+ ms, and what comes after it, load\(\) and fetch\(\), takes [0-9.e+]+ ms$",
    "host:beside": r"where it is timed: run\(\) takes [0-9.e-]+ ms, and what comes after it, load\(\) and fetch\(\), takes [0-9.e+]+ ms$",
    "host:hang_when_timed": "where it is timed: hangs: no result after 4 s$",
    "host:hang_when_destroyed": r"^\S+ f(32|64): hangs when it is destroyed: no result after (4|0\.8) s$",
}


class Attacking(Misbehaving):
    def attack(self, how, reason, **environment):
        """It gets no point, for this reason (a pattern), and soon. A case has few seconds only where it may hang: what is told of for something else
        has the time that it takes beside all else that this machine does."""
        start = time.monotonic()
        counted = ["--counted", self.counted] if how in COUNTED else []
        grade = self.misbehave(how, "--time-limit", "4" if "hangs" in reason else "20", "--memory-limit", "0.5", *counted, **environment)
        with self.subTest(attack=how, **environment):
            self.loses_all(grade, reason)
            self.assertLess(time.monotonic() - start, 60)

    def attacks(self, reasons, at_once, **environment):
        with concurrent.futures.ThreadPoolExecutor(at_once) as side_by_side:
            for done in [side_by_side.submit(self.attack, how, reason, **environment) for how, reason in reasons.items()]:
                done.result()


class OnAGpu(Misbehaving):
    """A short way through what is graded on a GPU, where nvcc takes long: the step `grade` of tools/verify-gpu.sh."""

    def setUp(self):
        super().setUp()
        if self.backend != "gpu" or shutil.which("nvidia-smi") is None:
            self.skipTest("there is no GPU")

    def test_exercises(self):
        names = [master.name for master in exercises.masters(STAGE)]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as side_by_side:
            for grade in side_by_side.map(lambda name: self.whole_way(STAGE, name, False), names):
                self.task_loses(grade)
        # One after the other: their speed has points.
        for name in names:
            self.full(self.whole_way(STAGE, name, True))

    def test_attacks(self):
        for how in ON_A_GPU:
            grade = self.misbehave(how, "--time-limit", "10", "--memory-limit", "4")
            with self.subTest(attack=how):
                self.loses_all(grade, ATTACKS[how])
        self.assertEqual(self.misbehave("")["broken"], "")
        self.assertEqual(left_of(self.built), [])


class OnTheHost(Attacking):
    """What is not multiplied in run() has no points where no kernels are counted, either."""

    BUILT, STAGE, NAME = "graded_misbehaving_host", "01_cpu_serial", "csr_spmv.cpp"

    def test_only_run_multiplies(self):
        grade = self.misbehave("", "--time-limit", "20")
        self.assertEqual((grade["points"], [c for c in grade["classes"] if c["reason"]]), (100, []))
        self.attacks(ON_THE_HOST, 1)


# What one of several ranks may do (misbehaving_ranks.cpp).
ON_RANKS = {
    "ranks:hang": "hangs: no result after",
    "ranks:memory": "takes more than 0.5 GB of memory",
    "ranks:fork_bomb": "ends the program: .*rank 1: no more processes|hangs|memory|crashes",
}


class OnRanks(Attacking):
    """The limits are of all that the student's program starts, ranks included."""

    BUILT, STAGE, NAME = "graded_misbehaving_ranks", "02_mpi", "gather_rows.cpp"

    def test_attacks(self):
        self.assertEqual(self.misbehave("", "--time-limit", "20", "--memory-limit", "0.5")["points"], 100)
        for bwrap in (["bwrap"] if confined() else []) + ["none"]:
            self.attacks(ON_RANKS, 3, STAGES_BWRAP=bwrap)
        self.assertEqual(left_of(self.built), [])


class Attacks(Attacking):
    """None of them gets a point, each gets its reason, and nothing of it is left."""

    def all_attacks(self, **environment):
        secret = self.write("secret", "another's hand-in")
        secret.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            environment |= {"STAGES_SECRET": str(secret), "STAGES_PORT": str(server.getsockname()[1])}
            # Without a namespace of networks and files nobody is kept from them, or who is no other user from this user's.
            open_to_all = set()
            if environment.get("STAGES_BWRAP") == "none":
                open_to_all = {"attack:network"} | (set() if os.geteuid() == 0 else {"attack:read", "attack:write", "attack:kill"})
            tried = ATTACKS | (COUNTED if self.counted.exists() else {})
            self.attacks({how: reason for how, reason in tried.items() if how not in open_to_all}, 4, **environment)
            with self.assertRaises(BlockingIOError):
                server.accept()
        self.assertEqual(secret.read_text(), "another's hand-in")
        self.assertEqual(left_of(self.built), [])
        if os.geteuid() == 0:
            self.assertEqual(list(pathlib.Path("/tmp").glob("disk*")), [])

    def test_confined(self):
        if not confined():
            self.skipTest("bubblewrap is not there, or cannot work here")
        self.all_attacks()

    def test_without_bubblewrap(self):
        self.all_attacks(STAGES_BWRAP="none")

    def test_bubblewrap_that_is_not_there(self):
        self.refused("STAGES_BWRAP=/no/bwrap: there is no such program", STAGE, self.empty, "--built", self.built, STAGES_BWRAP="/no/bwrap")
        done = run(PROGRAM, "grade", STAGE, self.empty, "--built", self.built, STAGES_BWRAP="/bin/false")
        self.assertRegex(done.stderr, "NOT CONFINED: bubblewrap cannot work here")

    def test_what_is_exported_changes_no_exam(self):
        grade = self.misbehave("zeros", STAGES_BATTERY_ONLY="empty", STAGES_BATTERY="full")
        self.assertGreater(len(grade["classes"]), 3)

    def test_ctrl_c(self):
        for signal_sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for bwrap in (["bwrap"] if confined() else []) + ["none"]:
                place = self.directory / "tmp"
                place.mkdir(exist_ok=True)
                place.chmod(0o755)
                grading = subprocess.Popen([PROGRAM, "grade", STAGE, self.empty, "--built", self.built], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, env={**os.environ, "STAGES_MISBEHAVE": "hang", "STAGES_BWRAP": bwrap, "TMPDIR": str(place)})
                # Not before the hand-in itself runs: bwrap asks to be ended with its parent only once it has started, and does not look
                # whether that is there still.
                wait_until(lambda: left_of(self.built, first_word=True))
                grading.send_signal(signal_sent)
                self.assertEqual(grading.wait(20), -signal_sent)
                wait_until(lambda: not left_of(self.built))
                if signal_sent != signal.SIGKILL:
                    self.assertEqual(list(place.iterdir()), [])
                shutil.rmtree(place)


class Hostile(Case):
    """Sources that attack whoever compiles them. C++ on the host, which is compiled in no time."""

    STAGE, NAME = "01_cpu_serial", "csr_spmv.cpp"
    EMPTY = "namespace stages { class Registry; void add_task(Registry&) {} }\n"

    def setUp(self):
        super().setUp()
        self.secret = self.write("secret.txt", "the_secret of another\n")
        self.secret.chmod(0o600)

    def broken(self, text, reason, **environment):
        start = time.monotonic()
        grade = self.grade(self.STAGE, self.write(self.NAME, text), **environment)
        with self.subTest(text=text[:200], **environment):
            self.assertEqual(grade["points"], 0)
            self.assertRegex(grade["broken"], reason)
            self.assertNotIn("the_secret", json.dumps(grade))
            self.assertLess(time.monotonic() - start, 60)

    def sources(self, **environment):
        master = ROOT / "01_cpu_serial/2_csr_spmv_plain.cpp"
        solution = ROOT / "01_cpu_serial/exercises" / self.NAME
        for include in (master.relative_to(ROOT), solution.relative_to(ROOT), master, solution, f"/usr/..{solution}", f"/proc/self/root{solution}",
                        self.secret, "common/kernels/../../01_cpu_serial/exercises/csr_spmv.cpp"):
            text = f'#include "{include}"\n' + (self.EMPTY if "exercises" not in str(include) else "")
            self.broken(text, "^does not compile:\n(.*(No such file|Permission denied)|it includes |.*neither yours nor of the project)", **environment)
        self.broken(f'asm(".incbin \\"{self.secret}\\"");\n' + self.EMPTY, "^does not compile:\n.*(file not found|Permission denied|No such file)", **environment)
        self.broken("namespace stages { class Registry; void add_01_cpu_serial(Registry&); void add_task(Registry& r) { add_01_cpu_serial(r); } }\n",
                    "^does not compile:\n.*undefined reference to .*add_01_cpu_serial", **environment)

    def test_what_lies_elsewhere(self):
        if not confined():
            self.skipTest("bubblewrap is not there, or cannot work here")
        self.sources()

    @unittest.skipIf(os.geteuid() != 0, "who is not root has no other user")
    def test_what_lies_elsewhere_without_bubblewrap(self):
        self.sources(STAGES_BWRAP="none")

    def test_a_compiler_that_eats_memory(self):
        self.broken('asm(".fill 9000000000, 1, 0");\n' + self.EMPTY, "memory|too large|fill|more than", STAGES_BWRAP="none")
        self.broken('#include "/dev/zero"\n' + self.EMPTY, "memory|too large|No such file|neither yours|not a regular file|stray|character device|it includes", STAGES_BWRAP="none")
        self.broken("template <class... T> struct S {};\ntemplate <class... T> S<T..., T..., T..., T...> four(S<T...>);\n"
                    "template <int n> struct F { using X = decltype(four(typename F<n - 1>::X())); };\n"
                    "template <> struct F<0> { using X = S<int>; };\nusing Y = F<14>::X;\n" + self.EMPTY, "the compiler takes more than 4 GB of memory")

    def test_what_is_no_task(self):
        for text in ("", "namespace stages { int add_task(int) { return 0; } }"):
            self.broken(text, r"^does not compile:\nit defines no void stages::add_task\(stages::Registry&\); keep the end of the exercise's file$")
        self.broken(self.EMPTY + "int main() {}\n", "^does not compile:\n.*multiple definition of `main'")
        self.broken(bytes(range(256)) * 20, "^does not compile:\n.*csr_spmv.cpp.*error")

    def test_messages_of_any_length(self):
        self.broken("//" * 1_000_000, "^does not compile:\nit has more than 1000000 bytes$")
        for length in (20_000, 100_000, 900_000):
            name = "a" * length
            self.broken(f"int x = {name};\n" + self.EMPTY, "^does not compile:\n(.*\n)*.*csr_spmv.cpp:1.*error.*aaa")

    def test_a_full_disk(self):
        place = self.directory / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k,mode=755", "tmpfs", place], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        file = self.write(self.NAME, "char big[4000000] = {1};\n" + self.EMPTY)
        done = run(PROGRAM, "grade", self.STAGE, file, TMPDIR=str(place))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, "the disk is full; free some room, or name another place in TMPDIR\n$|No space left on device")

    def test_a_small_stack(self):
        words = [PROGRAM, "grade", self.STAGE, self.write(self.NAME), "--json", "--built", self.prebuilt("graded_exercises")]
        done = run("sh", "-c", 'ulimit -s 64 && exec "$@"', "sh", *words, STAGES_EXERCISE=f"solution/{self.STAGE}/{self.NAME}", STAGES_BWRAP="none")
        self.assertNotIn(done.returncode, (-signal.SIGSEGV, 128 + signal.SIGSEGV), done.stderr)
        self.assertEqual(json.loads(done.stdout)["grades"][0]["points"], 100, done.stdout)


if __name__ == "__main__":
    unittest.main()
