#!/usr/bin/env python3
"""The libraries with a part of the probe's device code: every call that the patches put into NCCL's device code is in or out by name."""
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402

import nccl_series  # noqa: E402

GPU = os.path.join(paths.ROOT, "benchmarks", "gpu")
CALL = re.compile(r"\b(ccld_\w+)\s*\(")
MACRO = re.compile(r"^#define (ccld_\w+)", re.MULTILINE)
INCLUDE = re.compile(r'^#include "benchmarks/gpu/(without_\w+\.h)"', re.MULTILINE)


# They find the frame and the totals, which every part needs.
KEPT = {"ccld_channel_loaded", "ccld_kernel_begins"}


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def calls():
    """What the inserted lines of device code call."""
    found = set()
    for patch in nccl_series.Series(os.path.join(paths.ROOT, "nccl", "patches")).patches:
        for file, hunks in patch.files.items():
            if file.startswith("src/device/"):
                found.update(name for hunk in hunks for line in hunk.lines for name in CALL.findall(line))
    return found


def taken_out(header):
    return set(MACRO.findall(read(GPU, header)))


class ReducedBuildsTest(unittest.TestCase):
    def test_every_call_belongs_to_one_part_of_the_probe(self):
        parts = [taken_out("without_%s_device.h" % name) for name in ("begin_and_end", "steps", "waits")]
        self.assertTrue(KEPT < calls())
        for name in calls() - KEPT:
            self.assertEqual(sum(name in part for part in parts), 1, "%s: say in benchmarks/gpu/without_*_device.h which part it is of" % name)

    def test_what_is_taken_out_is_there(self):
        device_code = read(paths.ROOT, "nccl", "hooks", "ccld_hooks_device.h")
        for name in ("begin_and_end", "steps", "waits"):
            for macro in taken_out("without_%s_device.h" % name):
                self.assertIn(macro, device_code)

    def test_each_library_has_one_part(self):
        for library, out in (("only_begin_and_end", ("steps", "waits")), ("only_steps", ("rows", "begin_and_end", "waits"))):
            included = INCLUDE.findall(read(GPU, library, "ccld_hooks_device.h"))
            self.assertEqual(included, ["without_%s_device.h" % name for name in out])

    def test_a_trial_changes_what_the_kernels_really_call(self):
        trials = os.listdir(os.path.join(GPU, "trials"))
        self.assertTrue(trials)
        for trial in trials:
            text = read(GPU, "trials", trial, "ccld_hooks_device.h")
            self.assertIn('#include "nccl/hooks/ccld_hooks_device.h"', text)
            self.assertLessEqual(set(MACRO.findall(text)), calls(), trial)


if __name__ == "__main__":
    unittest.main()
