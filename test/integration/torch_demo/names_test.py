"""Names of communicators, as frameworks give them: texts in memory that is gone soon, too long ones, and ones that are no text.

Usage: names_test.py BUILD_FOLDER [unittest arguments]
       names_test.py --make CASE CCLD      one process with two ranks; prints what `ccld frames` says of it
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "test", "support")]

from torch_demo.machine import CPU_DEVICE_ENVIRONMENT  # noqa: E402
from torch_demo.rank.stand_in_engine import Functions, UniqueId, new_config  # noqa: E402

RANKS = 2
BUILD = None


class Ranks:
    """Two ranks in this process, each on a GPU of its own."""

    def __init__(self):
        self.call = Functions()
        self.world = [ctypes.c_void_p() for _ in range(RANKS)]
        self.name = ctypes.create_string_buffer(256)
        self.gone_before_the_end = False

    def config(self):
        config = new_config()
        address = ctypes.addressof(config) + type(config).comm_name.offset
        ctypes.c_void_p.from_address(address).value = ctypes.addressof(self.name)
        return config

    def in_group(self, one):
        self.call.nccl("ncclGroupStart")
        for rank in range(RANKS):
            self.call.cuda("cudaSetDevice", rank)
            one(rank)
        if self.gone_before_the_end:
            self.name.value = b"what else was put there"
        self.call.nccl("ncclGroupEnd")

    def make_world(self, name):
        self.name.value = name
        identifier, configs = UniqueId(), [self.config() for _ in range(RANKS)]
        self.call.nccl("ncclGetUniqueId", ctypes.byref(identifier))
        self.in_group(lambda rank: self.call.nccl("ncclCommInitRankConfig", ctypes.byref(self.world[rank]), RANKS, identifier, rank,
                                                  ctypes.byref(configs[rank])))

    def split(self, parents, configs=None):
        children = [ctypes.c_void_p() for _ in range(RANKS)]
        self.in_group(lambda rank: self.call.nccl("ncclCommSplit", parents[rank], 0, rank, ctypes.byref(children[rank]),
                                                  ctypes.byref(configs[rank]) if configs else None))
        return children


def inherited(ranks):
    ranks.make_world(b"parent")
    ranks.name.value = b"what else was put there"
    child = ranks.split(ranks.world)
    ranks.split(child)


def gone(ranks):
    ranks.gone_before_the_end = True  # the communicator is made by the group's end
    ranks.make_world(b"world")


def own(ranks):
    ranks.make_world(b"parent")
    ranks.name.value = b"child"  # in the same memory
    ranks.split(ranks.world, [ranks.config() for _ in range(RANKS)])


def too_long(ranks):
    ranks.make_world(b"x" * 200)


def no_text(ranks):
    ranks.make_world(b"\xff\xfe\x80")


CASES = {case.__name__: case for case in (inherited, gone, own, too_long, no_text)}


class NamesTest(unittest.TestCase):
    def names(self, case):
        base = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
        with tempfile.TemporaryDirectory() as folder:
            base.update(CPU_DEVICE_ENVIRONMENT, LD_LIBRARY_PATH=os.path.join(BUILD, "nccl", "lib"), NCCL_PROBE_FRAMES_DIR=folder)
            done = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), "--make", case, os.path.join(BUILD, "bin", "ccld")],
                                  stdout=subprocess.PIPE, text=True, env=base, timeout=240)
        self.assertEqual(done.returncode, 0)
        return sorted(frame["comm_name"] for frame in json.loads(done.stdout)["frames"])

    def test_a_child_that_inherits_has_the_name_its_parent_was_made_with(self):
        self.assertEqual(self.names("inherited"), ["parent"] * 3 * RANKS)

    def test_a_name_is_read_before_the_call_returns(self):
        self.assertEqual(self.names("gone"), ["world"] * RANKS)

    def test_a_child_with_a_configuration_has_its_own(self):
        self.assertEqual(self.names("own"), ["child"] * RANKS + ["parent"] * RANKS)

    def test_a_long_name_is_cut(self):
        for name in self.names("too_long"):
            self.assertRegex(name, "^x{50,63}$")

    def test_what_is_no_text_does_no_harm(self):
        self.assertEqual(len(self.names("no_text")), RANKS)


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        CASES[sys.argv[2]](Ranks())
        subprocess.run([sys.argv[3], "frames", "--json", "--all", "--pid", str(os.getpid())], check=True)
        sys.stdout.flush()
        os._exit(0)
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
