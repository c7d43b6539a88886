"""Plans of the demo: those of test/support/faults, with a torch job in place of a workload.

    {"name": "ddp_stops", "title": "...", "job": "ddp", "seconds": 0, "faults": [...], "expect": {...}}

`job` is ddp or pipeline; `seconds`: how long a job without faults runs (default 6). `ranks` is 4 unless the plan says otherwise. All other fields are those of
test/support/faults/README.md; `workload` and `network` are not for these jobs, and of the application's faults they know what
rank/fault_file.py does.
"""
import os

from faults import plan as plans

from .rank.fault_file import KINDS as JOB_KINDS
from .rank.jobs import JOBS

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "plans")
SECONDS = 6.0
RANKS = 4


class TorchPlan(plans.Plan):
    def __init__(self, document, where, settings=None):
        document = dict(document)
        job, seconds = document.pop("job", None), document.pop("seconds", 0 if document.get("faults") else SECONDS)
        if job not in JOBS:
            raise plans.PlanError("%s: job: must be one of %s" % (where, ", ".join(sorted(JOBS))))
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or seconds < 0:
            raise plans.PlanError("%s: seconds: must be a number, at least 0" % where)
        if bool(seconds) == bool(document.get("faults")):
            raise plans.PlanError("%s: seconds: a job without faults ends after them, one with faults never" % where)
        for field in ("workload", "network"):
            if field in document:
                raise plans.PlanError("%s: %s: is not known to torch jobs" % (where, field))
        document.setdefault("ranks", RANKS)
        super().__init__(document, where, settings)
        self.job, self.seconds = job, float(seconds)
        if job == "pipeline" and self.rank_count < 4:
            raise plans.PlanError("%s: ranks: the pipeline job needs at least 4" % where)
        for index, fault in enumerate(self.faults):
            if fault.kind in plans.DEVICE_KINDS or fault.kind in plans.APPLICATION_KINDS and fault.kind not in JOB_KINDS:
                raise plans.PlanError("%s: faults[%d].kind: %s is not known to torch jobs" % (where, index, fault.kind))


def names():
    return sorted(name[:-len(".json")] for name in os.listdir(FOLDER) if name.endswith(".json") and name != "thresholds.json")


def load(name):
    settings = plans.read_json(os.path.join(FOLDER, "thresholds.json"))
    return TorchPlan(plans.read_json(os.path.join(FOLDER, name + ".json")), name + ".json", settings)
