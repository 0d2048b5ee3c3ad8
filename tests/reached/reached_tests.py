#!/usr/bin/env python3
"""Whether the tests come to every kernel of the steps, at every precision and in every form that it is compiled in.

usage: reached_tests.py --run FILE PROGRAM [ARGUMENT...]
       reached_tests.py PROGRAM FILE...

With --run: runs PROGRAM, which notes the kernels that its cases come to (tests/reached.hpp), and writes into FILE a line for each: who,
which case, and the kernel by its name. Then, from all such files, whether a kernel is in none of them. Which kernels there are is told by
PROGRAM's symbols, so nothing is to be kept up here when a form is added, moved or dropped. A kernel that no case came to fails, unless
EXPLAINED says why none can; so does an explanation that explains nothing.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

# What no case can come to on the executor: (kernel, why). A regular expression of the whole name. Step 6's kernels are
# compiled for one list of sizes, and each of them chooses among a part of it (shape_for).
EXPLAINED = [
    (r"chain_words\.cu: chain_words<float, (40|48|56|64)>", "a lane keeps 32 floats at most"),
    (r"chain_words\.cu: chain_words<double, (24|32|40|48|56|64)>", "a lane keeps 16 doubles at most"),
    (r"chain_words\.cu: chain_words<(float, (16|24|32)|double, 16)>",
     "the executor's four SMs hold 256 rows, and so 8 non-zeros a lane"),
    (r"chain_cluster\.cu: chain_cluster<(float, 64|double, (40|48|56|64))>", "a lane keeps 56 floats or 32 doubles at most"),
    (r".*: spmm::multiply_short_rows<double>", "TF32 splits floats, and the entry refuses doubles"),
]
# A kernel with 64-bit row pointers is the same template as the one with 32-bit ones, and a matrix that needs it has 2^31 entries.
WIDE = re.compile(r"(?<!unsigned )(?<!long )\blong\b(?! long)")


def kernels_of(program):
    """{address: name} of a program's kernels, which have a tag (common/simt/device.hpp): `file: name<arguments>`."""
    table = subprocess.run(["readelf", "-sW", program], check=True, capture_output=True, text=True).stdout
    found, file = {}, ""
    for line in table.splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].endswith(":"):
            continue
        if words[3] == "FILE":
            file = words[7]
        elif words[3] == "FUNC" and "B6kernel" in words[7]:
            found[int(words[1], 16)] = (file, words[7])
    names = subprocess.run(["c++filt"], input="\n".join(name for _, name in found.values()), check=True, capture_output=True,
                           text=True).stdout.splitlines()
    out = {}
    for (address, (file, _)), name in zip(found.items(), names):
        if "[clone" not in name:
            out[address] = f"{file}: {short(name)}"
    return out


def short(name):
    """Without its result, its parameters, and what all names have in common."""
    name = name.replace("(anonymous namespace)::", "").replace("stages::", "").replace("[abi:kernel]", "")
    return re.sub(r"^void ", "", re.sub(r"\(.*", "", name))


def run(file, command):
    """Runs `command`; what it noted goes to `file` by names, which other builds have, too. Returns its exit code."""
    noted = file + ".addresses"
    pathlib.Path(noted).write_text("")
    code = subprocess.run(command, env={**os.environ, "STAGES_REACHED": noted}).returncode
    kernels = kernels_of(command[0])
    with open(file, "w") as out:
        for line in pathlib.Path(noted).read_text().splitlines():
            who, case, address = line.split("\t")
            out.write(f"{who}\t{case}\t{kernels[int(address)]}\n")
    os.remove(noted)
    return code


class Reached(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [file for file in FILES if not os.path.exists(file)]
        if missing:
            raise unittest.SkipTest(f"{missing[0]} is not there: ctest -R '^reached$' runs the test that writes it")
        cls.there = sorted(set(kernels_of(PROGRAM).values()))
        cls.reached = {}
        for file in FILES:
            for line in pathlib.Path(file).read_text().splitlines():
                who, case, name = line.split("\t")
                cls.reached.setdefault(name, []).append(f"{who} {case}".strip())

    def came_to(self, name):
        return name in self.reached or (WIDE.search(name) and WIDE.sub("int", name) in self.reached)

    def test_every_kernel_is_reached(self):
        self.assertGreater(len(self.there), 100, "the kernels' symbols were not understood")
        explained = [name for name in self.there if any(re.fullmatch(pattern, name) for pattern, _ in EXPLAINED)]
        never = [name for name in self.there if not self.came_to(name) and name not in explained]
        self.assertEqual(never, [], f"\nno case comes to {len(never)} of {len(self.there)} kernels; add a case to "
                                    "common/battery/cases.cpp, or to tests/cuda_mutants with smaller parts:\n" + "\n".join(never))

    def test_every_form_of_spmm_meets_alpha_and_beta(self):
        """What forgets beta C where alpha = 0, or scales wrongly, does so in one form."""
        for what, scaling in {"alpha = 0": "/alpha=0/beta=3$", "both": r"/alpha=-?([2-9.]+|0\.\d+)/beta=-[0-9.]+$"}.items():
            without = [name for name, cases in self.reached.items() if re.search(r": spmm::", name) and
                       not any(re.search(scaling, case) for case in cases)]
            self.assertEqual(without, [], f"\n{len(without)} kernels meet no case with {what}:\n" + "\n".join(without))

    def test_explanations_explain_something(self):
        for pattern, why in EXPLAINED:
            matches = [name for name in self.there if re.fullmatch(pattern, name)]
            self.assertTrue(matches, f"no kernel is called {pattern}: drop it from EXPLAINED")
            for name in matches:
                self.assertFalse(self.came_to(name), f"a case comes to {name}, of which EXPLAINED says: {why}")


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    PROGRAM, *FILES = sys.argv[1:]
    for variable in ("STAGES_BATTERY", "STAGES_BATTERY_ONLY", "STAGES_DEVICE"):
        if os.environ.get(variable, "") not in ("", "full"):
            print(f"{variable} is set: fewer cases, or another device, come to fewer kernels")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1])
