#!/usr/bin/env python3
"""tools/mutate.py: the faults that it plants, and a run of it on a project of one file with a played build.

usage: mutate_tests.py [unittest options]
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import mutate  # tools/mutate.py

SOURCE = """#include <x>  // i < n
  __syncthreads();
  if (i < n) return;
  total += one;
  same <= 1;
"""

# What a build is played by: --build "compiles" where `total` is only added to, takes no switch in lines 4 and 5, and makes a test
# program that fails without the barrier. Of `same` the compiler makes one program, whatever its border.
CMAKE = """#!/bin/sh
[ "$1" = --build ] || exit 0
cd "$(dirname "$2")"
cat source/*/*.cu > all
grep -q 'total = one' all && exit 1
grep -q 'total .*mutant::' all && { for f in source/*/*.cu; do echo "/a/$f:4:9: error: no switch"; echo "/a/$f:3:9: note: see"; done; exit 1; }
grep -q 'same .*mutant::' all && { for f in source/*/*.cu; do echo "/a/$f:2:9: warning: x"; echo "/a/$f:5:9: note: no"; done; exit 1; }
mkdir -p build/bin
{ echo '#!/bin/sh'; echo "#$(grep -v same all | tr '\\n' ' ')"
  echo 'case $1 in */0?_?_?\*) echo "[==========] 0 tests from 0 test suites ran."; exit 0 ;; esac'
  echo 'echo "$* $STAGES_RACES" >> "$SAID"'
  echo '[ ! -f "$SLOW" ] || sleep 30'
  echo '[ ! -f "$RACES" ] || [ -n "$STAGES_RACES" ] || exit 0'
  echo "barriers=$(ls source/*/*.cu | wc -l)"
  echo '[ -z "$STAGES_MUTANT" ] || ! grep -q "on($STAGES_MUTANT).*__syncthreads" "$0.source" || barriers=0'
  echo '[ ! -f "$RACES" ] || [ -z "$STAGES_MUTANT" ] || barriers=0'
  echo '[ $(grep -c __syncthreads "$0.source") = $barriers ] || { echo "  FAILED hub: element (1, 0) is wrong"; exit 1; }'
} > build/bin/battery_tests
cp all build/bin/battery_tests.source
chmod +x build/bin/battery_tests
"""

# Each kind of fault, and for switches what stands around them.
AROUND = """
#include <algorithm>
#include <cstdint>
#include <cstdio>
using std::max, std::min;
long called = 0;
int b(int x) { called += 100; return x; }
void __syncthreads() { called += 7; }
"""
EACH_KIND = """
long result(int n) {
  const int wide = 1 << 20;
  long sum = called = 0;
  const bool c = n > 0, d = n % 2 != 0;
  for (int i = 0; i < n; ++i) sum = 3 * sum + i;
  if (n <= 2) sum += 1000;
  if (n >= 2) sum += 3000;
  if (n < 2) __syncthreads();
  else sum += 50;
  sum += d ? 11 : 13;
  if (n == 5000 || c && b(n + 1) < 4 && b(n - 1) && d) sum += 500;
  sum += min(n, 1) * 7 + std::max(n, 2) + !(c && d);
  return sum + static_cast<long>(std::uint64_t{static_cast<unsigned>(n)} * wide) + static_cast<std::uint64_t>(n) * wide + called;
}
"""


class Faults(unittest.TestCase):
    def planted(self, line):
        return [m.after.strip() for m in mutate.mutants_of(pathlib.Path("a.cu"), line)]

    def test_each_kind(self):
        for line, *faults in (
            ("__syncwarp(mask);", ";"),
            ("if (a <= b) c();", "if (a < b) c();", "if (a <= 1 + b) c();"),
            ("x = n > 2 ? 1 : 0;", "x = n >= 2 ? 1 : 0;", "x = n > 1 + 2 ? 1 : 0;"),
            ("for (int i = 0; i < n; ++i) f(i);", "for (int i = 0; i < n - 1; ++i) f(i);"),
            ("constexpr unsigned kWarp = 32;  ///< lanes", "constexpr unsigned kWarp = 32 + 1;  ///< lanes"),
            ("end = row[i + 1];", "end = row[i];"),
            ("at = Offset{i} * n;", "at = int{i} * n;"),
            ("at = static_cast<std::size_t>(i) * n;", "at = static_cast<int>(i) * n;"),
            ("if (a && b) c();", "if (a || b) c();"),
            ("a = std::min(b, c);", "a = std::max(b, c);"),
        ):
            self.assertEqual(self.planted(line), faults)

    def test_a_switch_does_what_the_fault_does(self):
        mutants = mutate.mutants_of(pathlib.Path("a.cu"), EACH_KIND)
        self.assertEqual({m.kind for m in mutants}, {kind for kind, *_ in mutate.KINDS} - {"constant"})
        space = "namespace {} {{ {} }}\n"
        alone = "".join(space.format(f"of_{m.id}", m.source(EACH_KIND)) for m in mutants)
        calls = "".join(f'print("{m.switch_number}", of_{m.id}::result);\n' for m in mutants)
        behind, start = space.format("behind", mutate.switched(EACH_KIND, mutants)), mutate.switched("", [])
        program = f"""{AROUND} {start} {space.format("none", EACH_KIND)} {alone} {behind.replace(start, "")}
void print(const char* name, long (*result)(int)) {{
  std::printf("%s", name);
  for (const int n : {{-2, -1, 0, 1, 2, 3, 4, 5000}}) std::printf(" %ld", result(n));
  std::puts("");
}}
int main() {{ print("behind", behind::result); print("none", none::result); {calls} }}"""
        with tempfile.TemporaryDirectory() as directory:
            source, binary = pathlib.Path(directory, "a.cpp"), pathlib.Path(directory, "a")
            source.write_text(program)
            subprocess.run(["g++", "-std=c++20", "-w", "-fwrapv", "-I", ROOT, source, "-o", binary], check=True)

            def said(number):
                out = subprocess.run([binary], env={"STAGES_MUTANT": number}, capture_output=True, text=True, check=True).stdout
                return dict(line.split(" ", 1) for line in out.splitlines())

            without = said("")
            self.assertEqual(without["behind"], without["none"])
            for m in mutants:
                self.assertNotEqual(without[m.switch_number], without["none"], f"{m.kind}: {m.after}: not to be told")
                self.assertEqual(said(m.switch_number)["behind"], without[m.switch_number], f"{m.kind}: {m.after}")

    def test_no_fault_where_there_is_no_code(self):
        for line in ("// if i < n", "#if A < B", "template <class T>", 'fail("a < b && c");', "static_assert(a <= b);"):
            self.assertEqual(self.planted(line), [], line)

    def test_a_fault_is_the_same_when_lines_move(self):
        texts = ("a += b;\na += b;", "// new\na += b;\n\na += b;")
        ids = [[m.id for m in mutate.mutants_of(pathlib.Path("a.cu"), text)] for text in texts]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(len(set(ids[0])), 2)


class Runs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for name, text in (("01_x/a.cu", SOURCE), ("bin/cmake", CMAKE), (".gitignore", "/build/\n/bin/\n/said\n/slow\n/races\n")):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "bin/cmake").chmod(0o755)
        (self.root / "tools").mkdir()
        shutil.copy(ROOT / "tools/mutate.py", self.root / "tools")
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "SAID": str(self.root / "said"),
                            "SLOW": str(self.root / "slow"), "RACES": str(self.root / "races")}
        self.environment.pop("STAGES_BUILD", None)
        self.command = [sys.executable, self.root / "tools/mutate.py", self.root / "01_x/a.cu"]

    def run_it(self, *options):
        return subprocess.run([*self.command, *options], env=self.environment, capture_output=True, text=True, timeout=60)

    def outcomes(self):
        lines = (self.root / "build/mutants/results.tsv").read_text().splitlines()
        return sorted((line.split("\t")[1], line.split("\t")[5]) for line in lines[1:])

    def test_outcomes_score_and_a_source_that_stays(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = ["caught", "survived", "does not compile", "same code", "same code"]
        self.assertEqual(self.outcomes(), list(zip((f"01_x/a.cu:{line}" for line in (2, 3, 4, 5, 5)), expected)))
        self.assertIn("1 of 2 caught (50.0 %)", done.stdout)
        self.assertIn("survived: 01_x/a.cu:3", done.stdout)
        self.assertEqual((self.root / "01_x/a.cu").read_text(), SOURCE)
        said = (self.root / "said").read_text()
        self.assertIn("--gtest_filter=*PassesTheBattery/01_x*", said)
        # Nothing is tried twice.
        again = self.run_it()
        self.assertEqual((again.returncode, (self.root / "said").read_text()), (0, said), again.stderr)
        self.assertEqual(again.stdout, done.stdout)

    def test_alone_gives_the_same(self):
        behind = self.run_it()
        self.assertIn("2 faults behind switches, 3 that are built alone", behind.stderr)
        alone = self.run_it("--alone", "--results", str(self.root / "build/alone.tsv"))
        self.assertIn("0 faults behind switches, 5 that are built alone", alone.stderr)
        self.assertEqual(alone.stdout, behind.stdout)

    def test_what_the_battery_lets_pass_is_found_by_its_race(self):
        (self.root / "races").touch()  # the test program now fails at each fault, but only where races are looked for
        done = self.run_it()
        self.assertIn("2 of 2 caught", done.stdout, done.stderr)
        self.assertEqual((self.root / "build/mutants/results.tsv").read_text().count("\traces: hub"), 2)

    def test_what_is_measured_has_no_fault(self):
        other = self.root / "02_y/b.cu"
        other.parent.mkdir()
        other.write_text(SOURCE)
        for seed in ("1", "2", "3", "4"):  # in some orders a fault of one file comes before the first of the other
            done = self.run_it(str(other), "--seed", seed, "--results", str(self.root / f"results{seed}"))
            self.assertIn("2 of 4 caught", done.stdout, done.stderr)

    def test_a_sample_is_part_of_the_whole(self):
        self.assertEqual(self.run_it("--most", "2").returncode, 0)
        self.assertEqual(len(self.outcomes()), 2)
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(len(self.outcomes()), 5)

    def test_interrupted_it_leaves_the_source_and_goes_on(self):
        (self.root / "slow").touch()  # the test program now takes its time
        pipe = subprocess.PIPE
        with subprocess.Popen(self.command, env=self.environment, stdout=pipe, stderr=pipe, text=True) as process:
            while not (self.root / "said").exists():
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=20)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("the same call goes on", error)
        self.assertEqual((self.root / "01_x/a.cu").read_text(), SOURCE)
        (self.root / "slow").unlink()
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(len(self.outcomes()), 5)

    def test_what_is_no_source_is_refused(self):
        done = subprocess.run([*self.command[:2], "/etc/passwd"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("/etc/passwd is no file of this project", done.stderr)


if __name__ == "__main__":
    unittest.main()
