#!/usr/bin/env python3
"""The files that make containers, dev containers, jobs and CI: that they are what those programs read, and that what they name is there.

usage: doors_tests.py [unittest options]
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: yaml is missing (Debian: python3-yaml)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Doors(unittest.TestCase):
    """The files that other programs read: that they are what those programs read, and that what they name is there."""

    def test_dev_container(self):
        text = (ROOT / ".devcontainer/devcontainer.json").read_text()
        said = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
        recipe = ROOT / ".devcontainer" / said["build"]["dockerfile"]
        self.assertTrue(recipe.is_file())
        self.assertRegex(recipe.read_text(), rf"(?m)^FROM .* AS {said['build']['target']}$")
        for name in said["build"]["args"]:
            self.assertRegex(recipe.read_text(), rf"(?m)^ARG {name}\b")
        self.assertRegex(recipe.read_text(), rf"useradd .* {said['remoteUser']}\b")

    def test_workflows(self):
        for path in (ROOT / ".github/workflows").glob("*.yml"):
            jobs = yaml.safe_load(path.read_text())["jobs"]
            self.assertTrue(jobs)
            for name, job in jobs.items():
                with self.subTest(job=name):
                    self.assertLessEqual({"runs-on", "timeout-minutes", "steps"}, set(job))
                    for step in job["steps"]:
                        self.assertEqual(len({"run", "uses"} & set(step)), 1, step)
                        for script in re.findall(r"(?:bash |\./)([\w./-]+)", step.get("run", "")):
                            self.assertTrue((ROOT / script).is_file(), script)

    def test_what_containers_copy(self):
        for name in re.findall(r"(?m)^COPY (?:--\S+ )*(\S+) ", (ROOT / "Containerfile").read_text()):
            self.assertTrue((ROOT / name).exists(), name)


    def test_jobs(self):
        """Job files are bash, and start with what Slurm reads: its lines must stand before the first command."""
        for path in (ROOT / "slurm").glob("*.sbatch"):
            with self.subTest(job=path.name):
                self.assertEqual(subprocess.run(["bash", "-n", path], timeout=60, check=False).returncode, 0)
                lines = path.read_text().splitlines()
                self.assertTrue(lines[0].startswith("#!"))
                first = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
                orders = [k for k, line in enumerate(lines) if line.startswith("#SBATCH")]
                self.assertTrue(orders and max(orders) < first, "Slurm does not read what stands after a command")


if __name__ == "__main__":
    unittest.main()
