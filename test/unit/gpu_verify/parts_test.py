#!/usr/bin/env python3
"""Tests of what single parts judge without running anything: cases, plans, the tool's summaries, what a bundle takes along."""
import os
import sys
import tarfile
import tempfile
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import abort, bundle, cost, counters, faults, functional, registration, sanitizer, torch_demo, trials, visibility  # noqa: E402
from gpu_verify.errors import VerifyError  # noqa: E402
from gpu_verify.layout import BEGIN_AND_END, ON, STEPS, Layout  # noqa: E402
from gpu_verify.part import Context, Skip  # noqa: E402


def layout(device):
    return Layout(device, "/build", "/pristine")


class FunctionalTest(unittest.TestCase):
    def test_a_tree_is_asked_only_for_what_it_has(self):
        self.assertEqual({case[0] for case in functional.cases("Tree", "cuda", False)}, {"AllReduce"})
        self.assertEqual({case[0] for case in functional.cases("Ring", "cuda", False)}, set(functional.TYPES))

    def test_other_bits_name_the_case_the_variant_and_the_ranks(self):
        class Process:
            def __init__(self, variant, digests):
                self.variant, self.digests = variant, digests

            def ask(self, command):
                return {"digests": self.digests}
        tally = functional.Tally()
        functional.compare_bits([Process("pristine", ["a", "b"]), Process("off", ["a", "b"]), Process("on", ["a", "c"])], "Ring LL", ("AllReduce", "f32", 1, 0), 1, tally)
        self.assertEqual(tally.problems, ["Ring LL: other bits than upstream's with the probe on, on rank 1"])
        self.assertEqual(tally.digests, 1)


class CountersTest(unittest.TestCase):
    def test_a_wrong_total_is_told_with_both_numbers(self):
        row = {"operation": "AllReduce", "count": 5, "rank": -1, "sent": 3, "received": 4, "expected_sent": 4, "expected_received": 4}
        self.assertEqual(counters.problem_of("Tree", "LL", row), "Tree LL AllReduce of 5, all ranks: 3 steps sent and 4 received, expected 4 and 4")


    def test_without_files_for_frames_it_is_skipped_with_the_reason(self):
        refusing = layout("cuda")
        refusing.frames_refused = "cudaHostRegister: operation not supported"
        for part in (counters, visibility):
            with self.assertRaisesRegex(Skip, "frames have no file.*operation not supported"):
                part.run(Context(refusing, "", "", False, None, None))


class RegistrationTest(unittest.TestCase):
    @staticmethod
    def answer(works, frames):
        names = ("registered file", "registered memory", "CUDA's memory")
        return {"frames": frames, "ways": [{"name": name, "works": each, "refusal": "" if each else "not supported", "taken_us": 5.0} for name, each in zip(names, works)]}

    def test_frames_are_files_where_cuda_takes_them(self):
        result, refused = registration.judge(self.answer((True, True, True), 2))
        self.assertEqual((result.status, refused), ("passed", None))
        result, _ = registration.judge(self.answer((True, True, True), 1))
        self.assertEqual(result.problems, ["CUDA takes files, and 1 of 2 ranks have a frame with one"])

    def test_a_refusal_is_no_problem_while_cuda_gives_memory_of_its_own(self):
        result, refused = registration.judge(self.answer((False, False, True), 0))
        self.assertEqual((result.status, refused), ("passed", "not supported"))

    def test_nothing_to_write_to_is_a_problem(self):
        result, _ = registration.judge(self.answer((False, False, False), 0))
        self.assertEqual(len(result.problems), 1)


class VisibilityTest(unittest.TestCase):
    GOOD = {"looks": 9, "accepted": 5, "refused": 1, "running": 3, "skipped": 0, "wrong": [], "wrong_total": 0, "operations": 2, "ends_us": [-1.0, 0.0]}

    def test_what_was_refused_is_no_problem(self):
        self.assertEqual(visibility.problems_of("LL", self.GOOD), [])

    def test_wrong_records_late_ends_and_blind_readers_are(self):
        wrong = dict(self.GOOD, wrong=["rank 0: x"], wrong_total=3, ends_us=[0.0, 500.0])
        self.assertEqual(visibility.problems_of("LL", wrong), [
            "LL: rank 0: x", "LL: 2 more of these", "LL: the end of 1 of 2 kernels was seen more than 100 us after that of their stream"])
        self.assertEqual(visibility.problems_of("LL", dict(self.GOOD, running=0)), ["LL: nothing was seen while kernels ran"])


class AbortTest(unittest.TestCase):
    @staticmethod
    def held(descriptors=0, lost=0):
        before = {"descriptors": 10, "frame_mappings": 2, "frame_files": 2, "device_free_bytes": 100 << 20}
        return {"before": before, "after": dict(before, descriptors=10 + descriptors, device_free_bytes=(100 << 20) - lost)}

    def test_what_is_left_is_named(self):
        self.assertEqual(abort.leaks_of("on", self.held(), self.held()), [])
        self.assertEqual(abort.leaks_of("on", self.held(descriptors=3), self.held()), ["on: 3 more file descriptors after all communicators ended"])

    def test_device_memory_that_upstream_loses_too_is_not_ours(self):
        self.assertEqual(abort.leaks_of("on", self.held(lost=40 << 20), self.held(lost=40 << 20)), [])
        self.assertEqual(abort.leaks_of("on", self.held(lost=40 << 20), self.held()), ["on: 40.0 MiB of device memory lost beyond upstream's"])

    def test_an_abort_may_take_as_long_as_upstreams(self):
        self.assertEqual(abort.slow_abort("on", 5.9, 5.0), [])
        self.assertEqual(abort.slow_abort("on", 6.1, 5.0), ["on: an abort took 6.1 s, upstream's 5.0 s"])


class CostTest(unittest.TestCase):
    def test_a_library_has_to_write_what_it_is_named_after(self):
        class Process:
            def __init__(self, layout, variant, *_):
                self.shown = {BEGIN_AND_END: {"times": True, "steps": False}, STEPS: {"times": True, "steps": True}, ON: {"times": True, "steps": True}}[variant]

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def ask(self, command):
                return self.shown
        with unittest.mock.patch.object(cost, "RanksProcess", Process):
            problems = cost.check_shown(types.SimpleNamespace(layout=None, frames=None, allowance=None))
        self.assertEqual(problems, ["only_steps: the frame shows {'times': True, 'steps': True}, expected {'times': False, 'steps': True}"])


class TrialsTest(unittest.TestCase):
    def test_each_library_of_a_trial_is_measured_beside_upstreams_and_ours(self):
        with tempfile.TemporaryDirectory() as build:
            for name in ("trial_without_end", "trial_not_built", "one_gpu"):
                os.makedirs(os.path.join(build, "nccl", name))
            open(os.path.join(build, "nccl", "trial_without_end", "libnccl.so.2"), "w").close()
            context = Context(Layout("cuda", build, build), "", "", True, None, None)
            with unittest.mock.patch.object(trials, "measure_rows", lambda context, variants, *_: ([variants], [], [])):
                result = trials.run(context)
        self.assertEqual(result.facts["rows"], [["pristine", "pristine_again", "off", "on", "on_again"], ["pristine", "on", "trial_without_end"]])

    def test_a_few_are_measured_at_a_time(self):
        names = ["trial_%d" % number for number in range(trials.TRIALS_AT_ONCE + 1)]
        self.assertEqual([len(group) for group in trials.groups(names)], [5, 2 + trials.TRIALS_AT_ONCE, 3])

    def test_without_a_trial_it_is_skipped(self):
        with self.assertRaisesRegex(Skip, "CCLD_GPU_TRIALS"):
            trials.run(Context(layout("cuda"), "", "", False, None, None))


class FaultsTest(unittest.TestCase):
    def test_every_plan_is_a_good_one_and_says_what_is_right(self):
        for document in faults.FAULTS + (faults.HEALTHY,):
            plan = faults.load(document, layout("cuda"))
            self.assertEqual(bool(plan.expect), bool(plan.faults))
            self.assertEqual(plan.environment["CCLD_SHARE_GPUS"], "1")

    def test_the_quick_ones_are_some_of_them(self):
        self.assertLess(set(faults.QUICK), {document["name"] for document in faults.FAULTS})

    def test_every_class_that_a_gpu_allows_is_planted(self):
        classes = set()
        for document in faults.FAULTS:
            expected = document["expect"]["class"]
            classes.update([expected] if isinstance(expected, str) else expected)
        self.assertEqual(classes, {"H1", "H2", "H3", "S1"})


class SanitizerTest(unittest.TestCase):
    def test_errors_are_read_from_the_summary(self):
        self.assertEqual(sanitizer.errors_in("x\n========= ERROR SUMMARY: 0 errors\n"), 0)
        self.assertEqual(sanitizer.errors_in("========= ERROR SUMMARY: 12 errors"), 12)
        self.assertEqual(sanitizer.errors_in("========= RACECHECK SUMMARY: 7 hazards displayed (2 errors, 5 warnings)"), 2)

    def test_what_the_tool_says_instead_of_a_summary_is_its_refusal(self):
        self.assertEqual(sanitizer.refusal_in("========= COMPUTE-SANITIZER\n========= Error: device not supported\n"), "Error: device not supported")
        self.assertIsNone(sanitizer.refusal_in("========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4\nNCCL WARN not supported\n"))

    def test_a_tool_that_did_not_come_to_its_end_counts_nothing(self):
        self.assertIsNone(sanitizer.errors_in("========= COMPUTE-SANITIZER\nkilled"))


class TorchTest(unittest.TestCase):
    REPORT = {"runs": [{"name": "a", "right": True, "why_wrong": None}, {"name": "b", "right": False, "why_wrong": "class H3"}]}

    def test_wrong_jobs_are_problems(self):
        result = torch_demo.judge(("a", "b"), self.REPORT, 1, "x")
        self.assertEqual((result.status, result.problems, result.not_run), ("missed", ["b: class H3"], []))

    def test_jobs_that_there_was_no_time_for_are_named(self):
        result = torch_demo.judge(("a", "b", "c"), {"runs": self.REPORT["runs"][:1]}, None, "x")
        self.assertEqual((result.status, result.not_run), ("not_run", ["b", "c"]))

    def test_an_end_without_a_report_is_a_problem_with_its_last_words(self):
        result = torch_demo.judge(("a",), None, 1, "torch-demo: broke")
        self.assertEqual((result.status, result.problems), ("missed", ["torch-demo ended with status 1: torch-demo: broke"]))


class BundleTest(unittest.TestCase):
    LDD = ("\tlinux-vdso.so.1 (0x1)\n\tlibzmq.so.5 => /usr/lib/libzmq.so.5 (0x2)\n\tlibc.so.6 => /lib/libc.so.6 (0x3)\n"
           "\tlibstdc++.so.6 => /lib/libstdc++.so.6 (0x4)\n\tlibcrypto.so.3 => /usr/lib/libcrypto.so.3 (0x5)\n\t/lib64/ld-linux-x86-64.so.2 (0x6)\n")

    def test_libraries_come_along_but_those_that_every_machine_has_in_its_own_version(self):
        self.assertEqual(bundle.libraries_of(self.LDD), {"libzmq.so.5": "/usr/lib/libzmq.so.5", "libcrypto.so.3": "/usr/lib/libcrypto.so.3"})

    def test_a_library_that_is_missing_here_is_named(self):
        with self.assertRaisesRegex(VerifyError, "libzmq.so.5"):
            bundle.libraries_of("\tlibzmq.so.5 => not found\n")

    def test_a_folder_that_is_somebody_elses_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "work"), "w").close()
            with self.assertRaisesRegex(VerifyError, "no bundle"):
                bundle.make(types.SimpleNamespace(), folder)
            self.assertEqual(os.listdir(folder), ["work"])

    def test_the_checks_in_a_bundle_get_the_other_arguments(self):
        given = ["--unpack", "a.tar.xz", "--only", "faults", "--deadline-s=500", "--results", "out"]
        self.assertEqual(bundle.without_own_options(given), ["--only", "faults", "--results", "out"])

    def test_what_is_no_bundle_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.tar.xz")
            with self.assertRaisesRegex(VerifyError, "--unpack .*x.tar.xz"):
                bundle.run_unpacked(path, [], 10)
            with tarfile.open(path, "w:xz"):
                pass
            with self.assertRaisesRegex(VerifyError, "it is no bundle"):
                bundle.run_unpacked(path, [], 10)

    def test_a_missing_build_says_how_to_make_it(self):
        with self.assertRaisesRegex(VerifyError, "make gpu-verify"):
            layout("cuda").check()


if __name__ == "__main__":
    unittest.main()
