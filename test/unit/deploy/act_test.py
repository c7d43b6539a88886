#!/usr/bin/env python3
"""scripts/deploy/act: when it acts, how often, and what its hooks do."""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
ACT = os.path.join(ROOT, "scripts", "deploy", "act")
sys.path.insert(0, ACT)

from acting import Memory, StateError, choose, seconds_of  # noqa: E402

NOON = "2026-01-01T12:00:00.000Z"


def strategy(action, due=NOON, **fields):
    return {"action": action, "possible": True, "due_time": due, "equal_share": 16, "micro_batches": [], "exchanges": [], "hosts": [],
            "either_host": False, **fields}


def incident(*strategies, number=1, state="confirmed", layout=None):
    return {"incident": number, "run": "r", "state": state, "title": "GPU 2 is slow", "mitigation": {"strategies": list(strategies), "layout": layout}}


MICRO = strategy("micro_batches", micro_batches=[{"count": 17, "replicas": "0-1, 3"}, {"count": 13, "replicas": "2"}])


class Choice(unittest.TestCase):
    def setUp(self):
        self.memory = Memory(None)
        self.noon = seconds_of(NOON)

    def chosen(self, document, allowed=("micro_batches", "restart"), at_s=None):
        found = choose(document, allowed, self.noon if at_s is None else at_s, self.memory)
        return found and found["action"]

    def test_only_what_is_due_possible_and_allowed(self):
        self.assertEqual(self.chosen(incident(MICRO)), "micro_batches")
        self.assertIsNone(self.chosen(incident(MICRO), at_s=self.noon - 1))
        self.assertIsNone(self.chosen(incident(strategy("micro_batches", due=None))))
        self.assertIsNone(self.chosen(incident(strategy("micro_batches", possible=False))))
        self.assertIsNone(self.chosen(incident(MICRO), allowed=("restart",)))
        self.assertIsNone(self.chosen(incident(MICRO, state="suspected")))
        self.assertIsNone(self.chosen({**incident(MICRO), "mitigation": None}))

    def test_the_cheapest_first_and_each_once(self):
        document = incident(strategy("wait"), MICRO, strategy("restart"))
        self.assertEqual(self.chosen(document), "micro_batches")
        self.memory.begin(document, MICRO, self.noon)
        self.assertEqual(self.chosen(document), "restart")
        self.assertEqual(self.chosen(incident(MICRO, number=2)), "micro_batches")

    def test_no_more_than_so_many_in_so_long(self):
        self.assertEqual(self.memory.wait_s(100, 2, 60), 0)
        self.memory.begin(incident(number=1), MICRO, 100)
        self.assertEqual(self.memory.wait_s(110, 2, 60), 0)
        self.memory.begin(incident(number=2), MICRO, 110)
        self.assertEqual(self.memory.wait_s(120, 2, 60), 40)
        self.assertEqual(self.memory.wait_s(161, 2, 60), 0)

    def test_a_file_remembers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.json")
            Memory(path).begin(incident(), MICRO, 100)
            self.assertTrue(Memory(path).has(incident(), MICRO))
            for text in ("", "{}", '{"done": [{"key": 1}]}', '{"done": [{"key": "a", "time_s": "b"}]}'):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.assertRaises(StateError):
                    Memory(path)

    def test_what_cannot_be_written_down_is_not_begun(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(StateError, "cannot be written: No such file"):
                Memory(os.path.join(folder, "none", "state.json"))
            path = os.path.join(folder, "state.json")
            memory = Memory(path)
            os.mkdir(path + ".new")
            with self.assertRaises(StateError):
                memory.begin(incident(), MICRO, 100)
            self.assertFalse(memory.has(incident(), MICRO))
            os.rmdir(path + ".new")
            memory.begin(incident(), MICRO, 100)
            self.assertTrue(Memory(path).has(incident(), MICRO))


def hook(name, action, strategy_, path=None, layout=None, **environment):
    if path:
        environment["PATH"] = path + ":" + os.environ["PATH"]
    request = {"action": action, "strategy": strategy_, "incident": incident(strategy_, layout=layout)}
    return subprocess.run([os.path.join(ACT, "hooks", name)], input=json.dumps(request), capture_output=True, text=True, env={**os.environ, **environment},
                          timeout=30)


class Hooks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "calls")
        for tool in ("kubectl", "scontrol"):
            path = os.path.join(self.folder, tool)
            with open(path, "w", encoding="utf-8") as file:
                # Nodes: node1, node2. The pod train-0 is on node2.
                file.write("""#!/bin/sh
case "$*" in
  "get node node"*|"show node node"[0-9]) exit 0;;
  "get node"*|"show node"*) exit 1;;
  "get pods"*metadata.name=train-0*) printf "node2 node2"; exit 0;;
  "get pods"*) exit 0;;
esac
printf "%%s\\n" "%s $*" >> "%s"
case "$1" in drain) [ -z "$DRAIN_FAILS" ];; esac
""" % (tool, self.log))
            os.chmod(path, 0o755)

    def calls(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_micro_batches(self):
        path = os.path.join(self.folder, "micro-batches.json")
        done = hook("micro-batches", "micro_batches", MICRO, CCLD_MICRO_BATCHES_FILE=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"from_round": 0, "micro_batches": [17, 17, 13, 17]})
        self.assertIn("CCLD_MICRO_BATCHES_FILE", hook("micro-batches", "micro_batches", MICRO).stderr)
        self.assertNotEqual(hook("micro-batches", "restart", MICRO, CCLD_MICRO_BATCHES_FILE=path).returncode, 0)

    def test_rank_order(self):
        path = os.path.join(self.folder, "order")
        layout = {"tp": 2, "pp": 2, "dp": 2, "ep": 1, "order": "tp-dp-pp"}
        done = hook("rank-order", "placement", strategy("placement", exchanges=[[0, 6], [2, 6]]), layout=layout, CCLD_RANK_ORDER_FILE=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual([int(line) for line in file], [6, 7, 0, 1, 4, 5, 2, 3])
        layout["order"] = "dp-tp-pp"
        self.assertIn("dp-tp-pp", hook("rank-order", "placement", strategy("placement", exchanges=[[0, 6]]), layout=layout, CCLD_RANK_ORDER_FILE=path).stderr)

    def test_hosts_are_taken_out(self):
        restart = strategy("restart", hosts=["node1", "node2"])
        self.assertEqual(hook("slurm-drain", "restart", restart, self.folder).returncode, 0)
        self.assertEqual(self.calls(), ["scontrol update NodeName=node1,node2 State=DRAIN Reason=ccld incident 1: GPU 2 is slow"])
        os.remove(self.log)
        self.assertEqual(hook("kubernetes-cordon", "restart", strategy("restart", hosts=["node1", "node2"], either_host=True), self.folder).returncode, 0)
        self.assertEqual(self.calls()[0], "kubectl cordon node1")
        self.assertEqual(len(self.calls()), 2)
        os.remove(self.log)
        self.assertEqual(hook("kubernetes-cordon", "restart", restart, self.folder, CCLD_DRAIN="1").returncode, 0)
        self.assertEqual(len(self.calls()), 6)
        self.assertIn("drain node2", self.calls()[5])

    def test_all_hosts_are_cordoned_before_one_is_drained_and_what_is_not_drained_is_said(self):
        done = hook("kubernetes-cordon", "restart", strategy("restart", hosts=["node1", "node2"]), self.folder, CCLD_DRAIN="1", DRAIN_FAILS="1",
                    CCLD_HOOK_TIMEOUT_S="10")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("is cordoned and not drained"), 2)
        self.assertEqual([call.split()[1] for call in self.calls()], ["cordon", "annotate"] * 2 + ["drain"] * 2)
        self.assertRegex(self.calls()[4], "--timeout=[1-3]s")  # of two, in 8 s

    def test_a_host_is_found_by_the_name_that_the_scheduler_has_for_it(self):
        self.assertEqual(hook("kubernetes-cordon", "restart", strategy("restart", hosts=["train-0", "node2"]), self.folder).returncode, 0)
        self.assertEqual([call.split()[2] for call in self.calls()[:1]], ["node2"])
        self.assertEqual(len(self.calls()), 2)
        os.remove(self.log)
        done = hook("kubernetes-cordon", "restart", strategy("restart", hosts=["node1", "train-9"]), self.folder)
        self.assertIn("'train-9' is no node", done.stderr)
        self.assertEqual(self.calls(), [])
        self.assertEqual(hook("slurm-drain", "restart", strategy("restart", hosts=["node1.example.org"]), self.folder).returncode, 0)
        self.assertIn("NodeName=node1 ", self.calls()[0])

    def test_no_name_becomes_an_option_or_a_command(self):
        for name in ("--all", "a b", "a;b", "a,b", ""):
            for tool in ("slurm-drain", "kubernetes-cordon"):
                done = hook(tool, "restart", strategy("restart", hosts=[name]), self.folder)
                self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.calls(), [])


class FakeService:
    """Answers as the query API does."""

    def __init__(self, documents):
        self.documents = documents
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802: of the library
                path = self.path.split("?")[0]
                rows = [{"incident": d["incident"], "state": d["state"], **d.get("row", {})} for d in service.documents]
                found = {"/v1/status": {"incidents": rows}, **{"/v1/incidents/%d" % d["incident"]: d for d in service.documents}}.get(path)
                body = json.dumps(found).encode()
                self.send_response(200 if found is not None else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.got = os.path.join(self.folder, "got")
        self.hook = self.script("cat >> '%s'; echo >> '%s'" % (self.got, self.got))

    def script(self, text):
        path = os.path.join(self.folder, "hook")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)
        return path

    def act(self, documents, *options):
        service = FakeService(documents)
        self.addCleanup(service.stop)
        return subprocess.run([os.path.join(ACT, "act"), "--http", service.url, "--hook", self.hook, "--once", *options], capture_output=True, text=True,
                              timeout=60)

    def requests(self):
        if not os.path.exists(self.got):
            return []
        with open(self.got, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_nothing_without_do(self):
        done = self.act([incident(MICRO)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("would act", done.stdout)
        self.assertEqual(self.requests(), [])

    def test_the_hook_gets_the_request_once(self):
        state = os.path.join(self.folder, "state.json")
        for _ in range(2):
            done = self.act([incident(MICRO)], "--do", "--state", state)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["action"] for r in self.requests()], ["micro_batches"])
        self.assertEqual(self.requests()[0]["incident"]["title"], "GPU 2 is slow")

    def test_a_state_that_cannot_be_written_is_said_before_anything_is_done(self):
        done = self.act([incident(MICRO)], "--do", "--state", os.path.join(self.folder, "none", "state.json"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--state: ", done.stderr)
        self.assertEqual(self.requests(), [])

    def test_the_limit_holds_over_incidents(self):
        done = self.act([incident(MICRO, number=1), incident(MICRO, number=2)], "--do")
        self.assertEqual([r["incident"]["incident"] for r in self.requests()], [1])
        self.assertIn("has to wait", done.stdout)

    def test_people_come_first(self):
        self.act([{**incident(MICRO, number=1), "row": {"acknowledged": {"by": "x"}}}, {**incident(MICRO, number=2), "row": {"silenced": {"id": 1}}}], "--do")
        self.assertEqual(self.requests(), [])

    def test_a_hook_that_fails_or_hangs_is_said(self):
        self.hook = self.script("echo no such thing; exit 3")
        done = self.act([incident(MICRO)], "--do")
        self.assertIn("hook: no such thing", done.stdout)
        self.assertIn("failed: exit status 3", done.stdout)
        self.hook = self.script("exec sleep 60")
        self.assertIn("was killed", self.act([incident(MICRO)], "--do", "--timeout-s", "0.2").stdout)

    def test_wrong_usage(self):
        for options, word in ((["--allow", "x"], "'x'"), (["--hook", self.folder], "--hook"), (["--at-most", "0"], "--at-most"), (["--http", "ftp://x"], "--http")):
            done = self.act([], *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)

    def test_a_service_that_is_away(self):
        done = subprocess.run([os.path.join(ACT, "act"), "--http", "http://127.0.0.1:1", "--hook", self.hook, "--once"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot ask", done.stdout)


if __name__ == "__main__":
    unittest.main()
