"""The shell scripts of scripts/image and scripts/deploy parse, and shellcheck has nothing to say about them."""
import os
import shutil
import subprocess
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))


def shell_scripts():
    for folder in ("scripts/image", "scripts/deploy"):
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                path = os.path.join(where, name)
                with open(path, "rb") as file:
                    first = file.readline()
                if name.endswith(".sh") or first.startswith((b"#!/usr/bin/env bash", b"#!/bin/sh")):
                    yield os.path.relpath(path, ROOT)


class ShellTest(unittest.TestCase):
    def test_there_are_scripts(self):
        self.assertIn("scripts/deploy/slurm/prolog", shell_scripts())

    def test_every_script_parses(self):
        for script in shell_scripts():
            subprocess.run(["bash", "-n", os.path.join(ROOT, script)], check=True)

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is missing; apt-get install shellcheck")
    def test_shellcheck_has_nothing_to_say(self):
        run = subprocess.run(["shellcheck", "-x"] + list(shell_scripts()), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0, run.stdout)


if __name__ == "__main__":
    unittest.main()
