"""`ccld advise` as users run it: on verdict files, among them those of every golden recording.

CCLD_EXECUTABLE names the program; CCLD_GOLDEN the folder test/golden.
"""
import glob
import json
import os
import subprocess
import tempfile
import unittest

CCLD = os.environ["CCLD_EXECUTABLE"]
GOLDEN = os.environ["CCLD_GOLDEN"]
ACTIONS = ["micro_batches", "placement", "restart", "wait"]


def run(*arguments):
    return subprocess.run([CCLD, *arguments], capture_output=True, text=True, timeout=60)


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Recordings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file_of(self, verdict):
        path = os.path.join(self.folder, "verdicts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(verdict) + "\n")
        return path

    def advice(self, verdict, *more):
        done = run("advise", str(verdict["incident"]), "--file", self.file_of(verdict), "--json", *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def check(self, verdict, mitigation):
        strategies = {s["action"]: s for s in mitigation["strategies"]}
        self.assertEqual(sorted(strategies), ACTIONS)
        hosts = {h for c in verdict["culprits"] for h in (c["host"], c["peer_host"]) if h}
        for s in strategies.values():
            self.assertEqual(s["possible"], s["why_not"] is None)
            self.assertLessEqual(set(s["hosts"]), hosts, "a host that the incident does not name")
            if s["expected_ms"] is not None:
                self.assertLessEqual(s["low_ms"], s["expected_ms"])
                self.assertLessEqual(s["expected_ms"], s["high_ms"])
                self.assertLessEqual(s["expected_ms"], verdict["gain"]["now_ms"])
        if verdict["kind"] == "HANG":
            self.assertFalse(strategies["wait"]["possible"])
            self.assertEqual(mitigation["loss_share"], 1)
        if not verdict["culprits"]:
            self.assertFalse(strategies["restart"]["possible"])
        return strategies

    def test_every_golden_verdict_gets_advice(self):
        seen = 0
        for path in sorted(glob.glob(os.path.join(GOLDEN, "recordings", "*.jsonl"))):
            for verdict in lines_of(path):
                if verdict["state"] not in ("suspected", "confirmed"):
                    continue
                with self.subTest(path=os.path.basename(path), revision=verdict["revision"]):
                    seen += 1
                    self.check(verdict, self.advice(verdict))
        self.assertGreater(seen, 20)

    def test_every_slow_case_gets_advice_with_and_without_a_layout(self):
        seen = 0
        for path in sorted(glob.glob(os.path.join(GOLDEN, "cases", "*.ccldrec")))[::4]:
            done = run("replay", path, "--verdicts", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            verdicts = [json.loads(line) for line in done.stdout.splitlines()]
            layout = os.path.join(self.folder, "layout.json")
            with open(layout, "w", encoding="utf-8") as file:
                json.dump({"tp": 2, "pp": 2, "dp": 2}, file)
            for verdict in verdicts[-2:]:
                if verdict["state"] not in ("suspected", "confirmed"):
                    continue
                with self.subTest(path=os.path.basename(path)):
                    seen += 1
                    self.assertNotIn("mitigation", verdict)  # an answer, not a record
                    self.check(verdict, self.advice(verdict))
                    self.check(verdict, self.advice(verdict, "--layout", layout, "--set", "advise_micro_batches=16"))
        self.assertGreater(seen, 10)

    def test_a_hang_is_not_waited_for(self):
        verdict = lines_of(os.path.join(GOLDEN, "recordings", "h3_frozen_ring.jsonl"))[-1]
        done = run("advise", "1", "--file", self.file_of(verdict))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("First    Restart from the newest checkpoint without host node0.", done.stdout)
        self.assertIn("nothing is gained by waiting", " ".join(done.stdout.split()))

    def test_a_stopped_process_accuses_no_host(self):
        verdict = lines_of(os.path.join(GOLDEN, "recordings", "h1_stopped.jsonl"))[-1]
        self.assertEqual({s["action"]: s for s in self.advice(verdict)["strategies"]}["restart"]["hosts"], [])
        # To continue it costs less than any strategy.
        said = " ".join(run("advise", "1", "--file", self.file_of(verdict)).stdout.split())
        self.assertIn("kill -CONT %d" % verdict["culprits"][0]["pid"], said)

    def test_costs_on_the_command_line_decide_when_it_pays(self):
        verdict = [v for v in lines_of(os.path.join(GOLDEN, "recordings", "s1_slow_clock.jsonl")) if v["state"] == "confirmed"][-1]
        restart = {s["action"]: s for s in self.advice(verdict, "--set", "advise_restart_cost_s=40", "--set", "advise_checkpoint_cost_s=0")["strategies"]}["restart"]
        self.assertEqual(restart["cost_s"], 40)
        self.assertAlmostEqual(restart["due_after_ms"], max(40e3 / verdict["gain"]["share"], verdict["confirmed_ms"]), delta=1)


class WrongInput(unittest.TestCase):
    def refused(self, arguments, *words, status=2):
        done = run("advise", *arguments)
        self.assertEqual(done.returncode, status)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_one_line_names_what_is_wrong(self):
        golden = os.path.join(GOLDEN, "recordings", "h1_stopped.jsonl")
        self.refused(["1", "--file", golden, "--set", "advise_restart_cost_s=soon"], "advise_restart_cost_s=soon")
        self.refused(["1", "--file", golden, "--set", "hang_suspect_s=3"], "hang_suspect_s")
        self.refused(["1", "--file", golden, "--layout", "/nonexistent.json"], "--layout", "/nonexistent.json")
        self.refused(["77", "--file", golden], "77", status=1)
        self.refused(["1", "--file", "/nonexistent.jsonl"], "/nonexistent.jsonl", status=1)

    def test_settings_are_listed(self):
        listed = run("settings").stdout
        for name in ("advise_micro_batches", "advise_micro_batch_part", "advise_restart_cost_s", "advise_checkpoint_cost_s"):
            self.assertIn(name + " = ", listed)

    def test_the_service_refuses_a_wrong_one(self):
        done = run("serve", "--set", "advise_restart_cost_s=-3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("advise_restart_cost_s=-3", done.stderr)


if __name__ == "__main__":
    unittest.main()
