"""Runs one binary, healthy or with a fault, and says what came of it: its numbers and the verdicts."""
import os
import time

from run.errors import RunError
from run.outcome import FaultOutcome, run_fault
from run.processes import wait_for
from run.verdicts import describe

from . import checks, output, possible
from .job import ERRORS, OUTPUT, BinaryJob


class Outcome:
    """`troubles`: one line each; none: right. `fault`: what the verdicts were about the planted fault, or None."""

    def __init__(self, name, program):
        self.name, self.program = name, program
        self.troubles = []
        self.was_run = True
        self.result = self.fault = None
        self.seconds = 0.0

    @property
    def right(self):
        return not self.troubles

    def report(self):
        rows = [] if self.result is None else [
            dict(row._asdict(), out_of_place=row.out_of_place and row.out_of_place._asdict(),
                 in_place=row.in_place and row.in_place._asdict()) for row in self.result.rows]
        return {"name": self.name, "program": self.program, "version": self.result and self.result.version, "right": self.right,
                "troubles": self.troubles, "seconds": round(self.seconds, 1), "rows": rows,
                "bandwidth": self.result and self.result.bandwidth, "fault": self.fault and self.fault.report()}


def sizes_of(arguments):
    """The sizes that the command line asks for."""
    values = dict(zip(arguments[::2], arguments[1::2]))
    first, last, factor = parse_bytes(values["-b"]), parse_bytes(values["-e"]), int(values["-f"])
    sizes = [first]
    while factor > 1 and sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper(), 1)
    try:
        return int(float(text[:-1] if unit > 1 else text) * unit)
    except ValueError:
        raise RunError("%s is not a size; write 4096, 4K, 1M or 1G" % text)


def text_of(folder, name):
    """Empty if the binary was never started."""
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_output(folder, outcome):
    """The table as far as it has come; what cannot be read is a trouble."""
    try:
        outcome.result = output.parse(text_of(folder, OUTPUT))
    except output.OutputError as error:
        outcome.troubles.append("the output cannot be read: %s" % error)


def refusal_of_kernels(folder):
    """What the CPU device said of the binary's own kernels, or None."""
    lines = text_of(folder, ERRORS).splitlines()
    return next((line.strip() for line in lines if "is GPU code, which the CPU device cannot run: refused" in line), None)


def run_healthy(build, plan, folder, program, make_job, sizes, check, show):
    """To its end; numbers and exit status have to be right and the service has to be silent. `sizes`: None if they are not known."""
    outcome = Outcome(plan.name, program)
    begin = time.monotonic()
    status, heard, alarms = 0, True, []
    try:
        with make_job(build, plan, folder) as job:
            show("running %s" % program)
            status = job.wait_ended(plan.within_s)
            # What was sent last must be looked at, too, and the end must not alarm.
            wait_for(job.service.verdicts.poll, plan.settle_s, 0.02)
            heard = job.board.batches() > 0
            job.service.end()
            job.service.verdicts.poll()
            alarms = job.service.verdicts.incidents()
    except RunError as error:
        outcome.troubles.append(str(error))
    outcome.seconds = time.monotonic() - begin
    read_output(folder, outcome)
    if outcome.result is not None:
        outcome.troubles += checks.troubles(outcome.result, checks.Asked(program, plan.rank_count, sizes, check))
    if status != 0:
        outcome.troubles.append("%s ended with status %d" % (program, status))
    refused = refusal_of_kernels(folder)
    if refused:
        outcome.troubles.append(refused)
    if not heard:
        outcome.troubles.append("the decision service heard nothing of it: is our library loaded?")
    outcome.troubles += ["a false alarm: %s" % describe(alarm) for alarm in alarms]
    return outcome


def run_with_fault(build, plan, folder, program, make_job, show):
    """Until the verdict is there; it has to be right, and so have the numbers up to then."""
    outcome = Outcome(plan.name, program)
    begin = time.monotonic()
    outcome.fault = FaultOutcome(plan)
    jobs = []

    def make_and_keep(*what):
        jobs.append(make_job(*what))
        return jobs[-1]
    try:
        outcome.fault = run_fault(build, plan, folder, show, make_and_keep)
    except RunError as error:
        outcome.fault.why_wrong = "not run: %s" % error
        outcome.was_run = False
    outcome.seconds = time.monotonic() - begin
    if outcome.fault.why_wrong:
        outcome.troubles.append(outcome.fault.why_wrong)
    if outcome.troubles and outcome.was_run and jobs[-1].ended_with is not None:
        outcome.troubles.append("the job ended by itself, with status %d, before there was a verdict: a launcher that ends all ranks when one is "
                                "gone leaves nobody who hangs (Open MPI: --enable-recovery)" % jobs[-1].ended_with)
    read_output(folder, outcome)
    if outcome.result is not None:
        outcome.troubles += checks.wrong_values(outcome.result)
    return outcome


def job_maker(command, shape, mpirun, environment):
    return lambda build, plan, folder: BinaryJob(build, plan, folder, command, shape, mpirun, environment)


def run(build, plan, folder, binary, shape, check, mpirun=None, environment=None, more_arguments=(), show=lambda text: None):
    program = os.path.basename(binary)
    arguments = possible.arguments(plan, shape, check)
    make_job = job_maker([binary] + arguments + list(more_arguments), shape, mpirun, environment)
    if plan.faults:
        return run_with_fault(build, plan, folder, program, make_job, show)
    # More arguments may ask for other sizes.
    sizes = None if more_arguments else sizes_of(arguments)
    return run_healthy(build, plan, folder, program, make_job, sizes, check, show)
