import ctypes
import os
import tempfile
import unittest

import paths  # noqa: F401
from torch_demo.rank import loaded_library, names
from torch_demo.rank.loaded_library import WrongLibrary, judge, mapped

OURS, WHEEL = "/ours/libnccl.so.2", "/site/nvidia/nccl/lib/libnccl.so.2"
MAPS = """7f00-7f01 r--p 00000000 fe:00 12 /site/torch/lib/libtorch_cuda.so
7f01-7f02 r--p 00000000 fe:00 13 %s
7f02-7f03 r-xp 00001000 fe:00 13 %s
7f03-7f04 r--p 00000000 fe:00 14 /usr/lib/libncclient.so.2
7f04-7f05 r--p 00000000 00:00 0  [heap]
7f05-7f06 r-xp 00000000 fe:00 15 %s (deleted)
""" % (WHEEL, WHEEL, OURS)


class LoadedLibraryTest(unittest.TestCase):
    def test_each_library_is_found_once_also_one_that_was_replaced(self):
        self.assertEqual([path for path in mapped(MAPS) if "ncclient" not in path], [WHEEL, OURS])

    def test_ours_alone_is_right(self):
        self.assertIsNone(judge(OURS, [OURS], None))

    def test_the_wheels_is_named_and_what_to_do(self):
        problem = judge(OURS, [WHEEL], None)
        for word in (OURS, WHEEL, "LD_PRELOAD"):
            self.assertIn(word, problem)

    def test_no_library_means_that_it_is_linked_in(self):
        self.assertIn("USE_SYSTEM_NCCL", judge(OURS, [], None))

    def test_of_two_the_one_that_wins_everywhere_has_to_be_ours(self):
        self.assertIsNone(judge(OURS, [WHEEL, OURS], OURS))
        self.assertIn("calls go to %s" % WHEEL, judge(OURS, [WHEEL, OURS], WHEEL))
        self.assertIsNotNone(judge(OURS, [WHEEL, OURS], None))

    def test_communicators_without_a_frame_are_not_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(WrongLibrary, "no probing frame"):
                loaded_library.check_watched(folder)
            open(os.path.join(folder, "ccld-%d-1.frame" % os.getpid()), "w").close()
            loaded_library.check_watched(folder)


class NamesTest(unittest.TestCase):
    def config(self, version=22809, magic=names.MAGIC, size=96):
        memory = ctypes.create_string_buffer(96)
        head = names.ConfigHead.from_buffer(memory)
        head.size, head.magic, head.version = size, magic, version
        return memory, head

    def test_the_name_goes_to_its_field_and_nowhere_else(self):
        memory, head = self.config()
        before = memory.raw
        self.assertTrue(names.write_name(ctypes.addressof(memory), "PP0"))
        self.assertEqual(head.comm_name, b"PP0")
        self.assertEqual(names.ConfigHead.comm_name.offset, 48)
        self.assertEqual((memory.raw[:48], memory.raw[56:]), (before[:48], before[56:]))

    def test_what_is_no_configuration_or_too_old_is_left_alone(self):
        for other in ({"version": 22600}, {"magic": 1}, {"size": 40}):
            memory, _ = self.config(**other)
            before = memory.raw
            self.assertFalse(names.write_name(ctypes.addressof(memory), "PP0"))
            self.assertEqual(memory.raw, before)

    def test_torchs_own_property_comes_first_and_a_torch_without_any_way_says_so(self):
        class New:
            comm_name = None

        class Old:
            pass
        new = New()
        self.assertTrue(names.name_config(new, "DP"))
        self.assertEqual(new.comm_name, "DP")
        self.assertFalse(names.name_config(Old(), "DP"))

    def test_else_the_address_that_torch_tells_is_used(self):
        memory, head = self.config()

        class Between:
            @staticmethod
            def unsafe_get_ptr():
                return ctypes.addressof(memory)
        self.assertTrue(names.name_config(Between(), "DP"))
        self.assertEqual(head.comm_name, b"DP")


if __name__ == "__main__":
    unittest.main()
