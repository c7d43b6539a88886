#!/usr/bin/env python3
"""Which settings of the rules for slowness matter: each of them times 0.7 and times 1.4, and each rule left out, judged on recordings of real jobs and on
simulated ones.

A variation that was judged with the same build, recordings and seeds is not judged again, so an interrupted run goes on where it ended.
Exit status: 0 done, 2 cannot run.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "test", "golden"), os.path.join(ROOT, "benchmarks", "accuracy"), os.path.join(ROOT, "test", "support")]

import golden  # noqa: E402
import run_case  # noqa: E402
import scoring  # noqa: E402
import slow_cases  # noqa: E402
import table  # noqa: E402
from faults.plan import PlanError  # noqa: E402
from measured import commit  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import RunError  # noqa: E402
from store import version_of_files, write_json  # noqa: E402

FACTORS = (0.7, 1.4)
# In place of a factor: the value with which the rule that the setting belongs to is out of force.
WITHOUT = "without"
OUT_OF_FORCE = {
    "slow_rounds_min": 1, "slow_repeat": 1, "slow_clean_chance_max": 1, "slow_component_share_min": 0,
    "processor_wait_part_min": 10, "processor_turns_max": 0, "processor_step_turns_max": 1000,
    "iteration_rise_min": 1000,
    "whatif_deviations_min": 0, "whatif_recurs_min": 0, "whatif_same_role_min": 0, "whatif_transfer_times_min": 1, "whatif_away_min": 1,
    "whatif_proxy_part_min": 1, "whatif_lone_times_min": 1000, "whatif_explained_min": 0,
    "whatif_starting_windows": 0, "whatif_clocks_times_min": 1, "whatif_peers_min": 1, "whatif_kernels_min": 4, "whatif_prolonged_max": 1,
    "whatif_halves_max": 1, "network_rate_min_mbit_s": 0, "network_latency_max_ms": 0, "clock_drift_max_ppm": 0, "batches_differ_max_ms": 1e6}
# What the rules for slowness read. The other slow_... belong to the paper's rules, baseline_... too.
SLOW_RULES = re.compile(r"slow_|whatif_|processor_|iteration_|clock_|network_|batches_")
PAPER_ONLY = ("slow_theta", "slow_alpha", "slow_beta")
# How much is looked at, for want of memory and time.
BOUNDS = ("iteration_witnesses_max", "whatif_kernels_max", "whatif_gpus_max")
SEEDS_AT_A_TIME = 10

Setting = namedtuple("Setting", "name default low high whole")


def parse_settings(text):
    """The numeric ones of `ccld settings`, in its order."""
    found = re.findall(r"^(\w+) = (\S+)  \((a whole number, )?(\S+) \.\. (\S+)\)$", text, re.MULTILINE)
    return [Setting(name, float(default), float(low), float(high), bool(whole)) for name, default, whole, low, high in found]


def of_slow_rules(settings):
    return [setting for setting in settings if SLOW_RULES.match(setting.name) and setting.name not in PAPER_ONLY + BOUNDS]


def varied(setting, factor, value=None):
    """The text of the setting's value times the factor: within its range, a whole number at least 1 off. None: it is at its bound, or has no such value."""
    value = setting.default if value is None else value
    if factor == WITHOUT:
        out = OUT_OF_FORCE.get(setting.name)
        return None if out is None or out == value else "%.6g" % out
    changed = value * factor
    if setting.whole:
        changed = round(changed)
        if changed == value:
            changed += 1 if factor > 1 else -1
    changed = min(max(changed, setting.low), setting.high)
    return None if changed == value else "%.6g" % changed


class Evidence:
    """What is judged. Each item has a name and a function that says whether it is right with a change of the settings.

    A change is a pair (setting, factor) or None. Recordings carry settings of their own, e.g. shorter windows: the factor is for these.
    """

    def __init__(self, build, simulator, seeds, quick):
        self._build, self._simulator = build, simulator
        self._cases = list(slow_cases.read_index().values())
        self._goldens = list(golden.read_index().values())
        self.seeds = {"sim": seeds, "sim_from_start": seeds // 2}
        if quick:
            self._cases, self._goldens = self._cases[:2], [each for each in self._goldens if each.name == "s1_slow_clock"]
        self.base = {}  # settings that each recording carries

    def recordings(self):
        return [slow_cases.recording_of(case) for case in self._cases] + [each.recording for each in self._goldens]

    def groups(self):
        """{group: how many}, for the totals."""
        return dict({"cases_chosen": sum(case.part == "chosen" for case in self._cases), "cases_judged": sum(case.part == "judged" for case in self._cases),
                     "golden": len(self._goldens)}, **self.seeds)

    def wrong(self, pool, change):
        """The names of all that is wrong, "group/name". None if nothing is changed by the change."""
        tasks = [pool.submit(self._wrong_case, case, change) for case in self._cases]
        tasks += [pool.submit(self._wrong_golden, each, change) for each in self._goldens]
        for group, count in self.seeds.items():
            tasks += [pool.submit(self._wrong_seeds, group, first, min(SEEDS_AT_A_TIME, count - first + 1), change)
                      for first in range(1, count + 1, SEEDS_AT_A_TIME)]
        return sorted({name for task in tasks for name in task.result()})

    def _changes(self, recording, change):
        if change is None:
            return {}
        if recording not in self.base:
            facts = json.loads(output_of([self._build.service, "replay", recording, "--info", "--json"]))
            self.base[recording] = facts["metadata"]["settings"]
        setting, factor = change
        recorded = self.base[recording].get(setting.name)
        text = varied(setting, factor, None if recorded is None else float(recorded))
        return {} if text is None else {setting.name: text}

    def _wrong_case(self, case, change):
        score = slow_cases.judge(self._build, case, self._changes(slow_cases.recording_of(case), change))
        return [] if scoring.is_right(score) else ["cases_%s/%s" % (case.part, case.id)]

    def _wrong_golden(self, each, change):
        with tempfile.TemporaryDirectory(prefix="ccld-ablation-") as folder:
            path = os.path.join(folder, "verdicts.jsonl")
            golden.replay(self._build.service, each, path, self._changes(each.recording, change))
            return ["golden/" + each.name] if each.why_wrong(path) else []

    def _wrong_seeds(self, group, first, count, change):
        command = [self._simulator, "--first-seed", str(first), "--seeds", str(count)]
        if group == "sim_from_start":
            command += ["--from-start", "--pipeline-links"]
        if change is not None:
            text = varied(*change)
            command += ["--set", "%s=%s" % (change[0].name, text)] if text is not None else []
        return ["%s/%s" % (group, seed) for seed in re.findall(r"^WRONG seed (\d+):", output_of(command, (0, 1)), re.MULTILINE)]


def output_of(command, statuses=(0,)):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in statuses:
        raise RunError("%s failed: %s" % (" ".join(command), (done.stderr or done.stdout).strip().split("\n")[-1]))
    return done.stdout


def compared(baseline, wrong):
    return {"became_wrong": sorted(set(wrong) - set(baseline)), "became_right": sorted(set(baseline) - set(wrong))}


def by_group(names):
    groups = {}
    for name in names:
        group, rest = name.split("/", 1)
        groups.setdefault(group, []).append(rest)
    return groups


def effect(row):
    """How much a setting matters: verdicts that change, whichever way."""
    return sum(len(each["became_wrong"]) + len(each["became_right"]) for each in row["variations"])


def shown(rows):
    """The settings that somebody notices, those that matter most first, and the names of the others."""
    lines = [("setting", "value", "wrong", "right", "which became wrong", "which became right")]
    for row in sorted(rows, key=effect, reverse=True):
        for each in row["variations"] if effect(row) else ():
            lines.append((row["name"], each["value"] or "at its bound", "+%d" % len(each["became_wrong"]), "+%d" % len(each["became_right"]),
                          " ".join(each["became_wrong"][:4]), " ".join(each["became_right"][:4])))
    return table.aligned(lines) + "\nnobody notices: " + (", ".join(row["name"] for row in rows if not effect(row)) or "none")


class Memory:
    """Results of an interrupted run with the same build, recordings and seeds."""

    def __init__(self, path, key):
        self._path, self._key, self._known = path, key, {}
        try:
            with open(path) as file:
                document = json.load(file)
            self._known = document["known"] if document["key"] == key else {}
        except (OSError, ValueError):
            pass

    def get(self, name, work):
        if name not in self._known:
            self._known[name] = work()
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            write_json(self._path, {"key": self._key, "known": self._known})
        return self._known[name]


def machine():
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return {"processors": os.cpu_count(), "model": model or platform.machine()}


def run(arguments):
    build = Build(arguments.build)
    simulator = os.path.join(build.folder, "test", "sim", "ccld_sim")
    for path in (build.service, simulator):
        if not os.path.exists(path):
            raise RunError("%s is missing: build it first with 'make build'" % path)
    settings = of_slow_rules(parse_settings(output_of([build.service, "settings"])))
    if not settings:
        raise RunError("%s settings: no setting was understood" % build.service)
    if arguments.only:
        settings = [setting for setting in settings if re.search(arguments.only, setting.name)]
        if not settings:
            raise RunError("--only %s: no setting of the rules for slowness has such a name" % arguments.only)
    evidence = Evidence(build, simulator, 4 if arguments.quick else arguments.seeds, arguments.quick)
    judges = [module.__file__ for module in (golden, run_case, scoring, slow_cases)]
    key = [version_of_files([build.service, simulator, slow_cases.INDEX] + judges + evidence.recordings()), evidence.groups()]
    kept = os.path.join(build.folder, "ablation", "quick.json" if arguments.quick else "known.json")
    if arguments.quick and os.path.exists(kept):
        os.remove(kept)  # it is to be seen whether the tool works
    memory = Memory(kept, hashlib.sha256(json.dumps(key).encode()).hexdigest())
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        baseline = memory.get("baseline", lambda: evidence.wrong(pool, None))
        counts = {group: "%d of %d right" % (count - len(by_group(baseline).get(group, ())), count) for group, count in evidence.groups().items()}
        print("baseline: %s" % ", ".join("%s %s" % item for item in counts.items()), flush=True)
        rows = []
        for index, setting in enumerate(settings):
            row = {"name": setting.name, "default": "%.6g" % setting.default, "variations": []}
            for factor in FACTORS + (WITHOUT,) * (setting.name in OUT_OF_FORCE):
                wrong = memory.get("%s*%s" % (setting.name, factor), lambda: evidence.wrong(pool, (setting, factor)))
                row["variations"].append(dict({"factor": factor, "value": varied(setting, factor)}, **compared(baseline, wrong)))
            rows.append(row)
            print("%3d/%d %s: %d verdicts change, %.0f s" % (index + 1, len(settings), setting.name, effect(row), time.monotonic() - begin), flush=True)
    print(shown(rows))
    document = {"commit": commit(), "machine": machine(), "factors": FACTORS + (WITHOUT,), "seconds": round(time.monotonic() - begin),
                "evidence": evidence.groups(), "baseline": {"right": counts, "wrong": baseline}, "unnoticed": [row["name"] for row in rows if not effect(row)],
                "settings": sorted(rows, key=effect, reverse=True)}
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    write_json(arguments.out, document)
    print("%d settings in %.0f s; results in %s" % (len(rows), time.monotonic() - begin, os.path.relpath(arguments.out)))
    return 0


def main():
    parser = argparse.ArgumentParser(prog="ablate", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="build tree (build/dev)")
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="simulated jobs, and half as many with --from-start --pipeline-links (100)")
    parser.add_argument("--only", metavar="REGEX", help="only settings with such a name")
    parser.add_argument("--quick", action="store_true", help="three recordings and six simulated jobs: does the tool work?")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="replays and simulations at a time (one for each processor)")
    parser.add_argument("--out", metavar="FILE", help="results (benchmarks/results/ablation.json; build/ablation.json of a part)")
    arguments = parser.parse_args()
    if arguments.out is None:
        part = arguments.quick or arguments.only
        arguments.out = os.path.join(ROOT, "build", "ablation.json") if part else os.path.join(ROOT, "benchmarks", "results", "ablation.json")
    return run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunError, PlanError, OSError) as error:
        print("ablate: %s" % error, file=sys.stderr)
        sys.exit(2)
