"""scripts/torch-demo on the product's library: PyTorch jobs with planted faults. (On the CPU device with its stand-in for torch.)"""
import importlib.util
import json
import os
import signal
import subprocess
import sys

from .layout import ROOT
from .part import Result, Skip

TIMEOUT_S = 300.0
CANNOT_RUN = 2  # torch-demo's exit status where this torch or this machine cannot run it
RUNS = ("ddp_healthy", "ddp_stops", "pipeline_late")
QUICK_RUNS = ("ddp_stops",)


def command_of(layout, runs, folder):
    command = [sys.executable, "-B", os.path.join(ROOT, "scripts", "torch-demo"), "--library", os.path.join(layout.product, "libnccl.so.2"),
               "--ccld", layout.service, "--out", folder, "--run", ",".join(runs)]
    return command if layout.device == "cuda" else command + ["--stand-in"]


def judge(wanted, report, status, last):
    """`report`: what torch-demo wrote after its last finished run, or None; `status`: None when its time was over."""
    rows = report["runs"] if report else []
    problems = ["%s: %s" % (row["name"], row["why_wrong"]) for row in rows if not row["right"]]
    done = {row["name"] for row in rows}
    not_run = [name for name in wanted if name not in done] if status is None else []
    if status not in (0, None) and not problems:
        problems.append("torch-demo ended with status %d: %s" % (status, last))
    return Result({"report": report}, problems, not_run, "%d of %d jobs right" % (sum(row["right"] for row in rows), len(wanted)))


def run(context):
    if not os.path.exists(os.path.join(ROOT, "scripts", "torch-demo")):
        raise Skip("there is no scripts/torch-demo")
    if context.on_gpu and importlib.util.find_spec("torch") is None:
        raise Skip("%s has no torch" % sys.executable)
    wanted = QUICK_RUNS if context.quick else RUNS
    report_path, log_path = os.path.join(context.folder, "report.json"), os.path.join(context.folder, "log")
    if os.path.exists(report_path):
        os.unlink(report_path)  # of an earlier run
    context.show("scripts/torch-demo: %s" % ", ".join(wanted))
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command_of(context.layout, wanted, context.folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(context.allowance.limit(TIMEOUT_S))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_group(process)
    with open(log_path, errors="replace") as log:
        last = (log.read().strip().splitlines() or ["it said nothing"])[-1]
    if status == CANNOT_RUN:
        raise Skip(last)
    report = None
    if os.path.exists(report_path):
        with open(report_path) as file:
            report = json.load(file)
    return judge(wanted, report, status, last)


def end_group(process):
    """Politely first: it has processes of its own to end."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
