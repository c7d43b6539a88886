import os
import subprocess
import sys
import unittest

import paths

CHAOS = os.path.join(paths.ROOT, "benchmarks", "chaos", "chaos.py")


def run(*words):
    return subprocess.run([sys.executable, "-B", CHAOS] + list(words), capture_output=True, text=True)


class ChaosTest(unittest.TestCase):
    def test_a_plan_is_shown_without_a_build_and_is_the_same_every_time(self):
        first, second = run("--seed", "17", "--plan"), run("--seed", "17", "--plan")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn('"seed": 17', first.stdout)
        self.assertEqual(first.stdout, second.stdout)

    def test_a_wrong_number_of_seeds_is_one_line_that_names_it(self):
        for words, part in ((("--seeds", "0"), "--seeds"), (("--first-seed", "soon"), "'soon'"), (("--seed", "-1"), "--seed")):
            done = run(*words)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "root is asked for first")
    def test_a_missing_build_is_one_line_that_names_it(self):
        done = run("--seed", "1", "--build", "/nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("/nowhere/bin/ccld", done.stderr)


if __name__ == "__main__":
    unittest.main()
