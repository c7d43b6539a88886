"""compute-sanitizer on a rank with the probe on, and on the same rank with upstream's library: our lines must not add an error.

Two ranks, each a process and a machine of its own to NCCL, so that the tool may hold one rank's kernels as long as it likes. Upstream's kernels
talk through shared memory in ways that racecheck may call hazards; what counts is whether there are more with our lines in them.
"""
import os
import re
import shutil
import subprocess
import tempfile

from .errors import OutOfTime, VerifyError
from .layout import ON, PRISTINE
from .part import Result, Skip
from .ranks_process import KILL_TIMEOUT_S

TOOLS = ("memcheck", "racecheck", "synccheck")
RUN_TIMEOUT_S = 90.0
SUMMARIES = (re.compile(r"ERROR SUMMARY: (\d+) error"), re.compile(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?"))
REFUSAL = re.compile(r"not supported|unsupported|unable to|failed to (initialize|load|find|attach)|permission|internal sanitizer error", re.IGNORECASE)
PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer")


def find_tool():
    found = shutil.which("compute-sanitizer")
    return found or next((path for path in PLACES if os.access(path, os.X_OK)), None)


class Refused(VerifyError):
    """The tool does not look at this device; the text is what it says of that."""


def refusal_in(text):
    """What the tool says of the device where it gives no summary; None: nothing. (What it finds in a program is no refusal.)"""
    said = [line.strip("= ") for line in text.splitlines() if line.startswith("=========")]
    return next((line for line in said if REFUSAL.search(line)), None)


def errors_in(text):
    """How many errors the tool counts; None: it did not come to its summary."""
    found = SUMMARIES[1].search(text)
    if found:
        return int(found.group(2))
    found = SUMMARIES[0].search(text)
    return int(found.group(1)) if found else None


def environment(layout, library, rank, frames_folder):
    result = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
    result.update({
        "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_HOSTID": "rank%d" % rank, "NCCL_MAX_NCHANNELS": "1", "NCCL_PAT_ENABLE": "0",
        "NCCL_RAS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", "NCCL_DEBUG": "WARN", "NCCL_ALGO": "RING;allreduce:TREE",
        "NCCL_PROBE_FRAMES_DIR": frames_folder, "LD_LIBRARY_PATH": layout.loader_path(library)})
    return result


def run_two(context, tool, name, library, folder):
    """Rank 0 under the tool, rank 1 beside it; what the tool wrote."""
    scratch = tempfile.mkdtemp(prefix="ids-", dir=context.frames)
    log_path = os.path.join(folder, "%s.log" % name)
    arguments = ["--ranks", "2", "--id-file", os.path.join(scratch, "id"), "--status", os.path.join(scratch, "board"), "--op", "mix", "-b", "4K",
                 "-e", "256K", "-f", "8", "-n", "2", "-w", "0", "-c", "1"]
    with open(os.path.join(scratch, "board"), "wb") as board:
        board.truncate(128 * 3)
    processes = []
    with open(log_path, "wb") as log, open(log_path + ".other", "wb") as other_log:
        try:
            for rank, prefix, output in ((0, [tool[0], "--tool", tool[1], "--print-limit", "10"], log), (1, [], other_log)):
                processes.append(subprocess.Popen(prefix + [context.layout.workload, "--rank", str(rank)] + arguments, stdin=subprocess.DEVNULL,
                                                  stdout=output, stderr=subprocess.STDOUT,
                                                  env=environment(context.layout, library, rank, context.frames)))
            status = processes[0].wait(context.allowance.limit(RUN_TIMEOUT_S))
        except subprocess.TimeoutExpired:
            if context.allowance.is_over():
                raise OutOfTime("%s: the time of this part is over" % name)
            raise VerifyError("%s: not done after %.0f s" % (name, RUN_TIMEOUT_S))
        finally:
            for process in processes:
                process.kill()
                try:
                    process.wait(KILL_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    pass  # in a call of the driver that nothing ends
    with open(log_path, errors="replace") as log:
        text = log.read()
    errors = errors_in(text)
    if errors is None and refusal_in(text):
        raise Refused(refusal_in(text))
    if errors is None:
        raise VerifyError("%s: no summary: %s" % (name, " ".join(text.strip().splitlines()[-1:])))
    if errors == 0 and status != 0:
        raise VerifyError("%s: no error, but the rank ended with status %d; see %s" % (name, status, log_path))
    return errors


def count_errors(context, tool, name, variant, library, folder):
    title = "%s-%s" % (name, variant)
    context.show(title)
    return run_two(context, (tool, name), title, library, folder)


def run(context):
    if not context.on_gpu:
        raise Skip("compute-sanitizer looks at GPUs only")
    tool = find_tool()
    if tool is None:
        raise Skip("there is no compute-sanitizer on this machine")
    folder = context.subfolder("sanitizer")
    counts, problems, not_run, refused = {}, [], [], {}
    for name in TOOLS:
        try:
            counts[name] = {ON: count_errors(context, tool, name, ON, context.layout.product, folder)}
            # Upstream's own errors are only of interest where ours has some.
            if counts[name][ON] > 0:
                counts[name][PRISTINE] = count_errors(context, tool, name, PRISTINE, context.layout.pristine_product, folder)
        except OutOfTime:
            not_run.append(name)
        except Refused as error:
            refused[name] = str(error)
        except VerifyError as error:
            problems.append(str(error))
    problems += ["%s: %d errors with our library, %d with upstream's" % (name, figures[ON], figures[PRISTINE])
                 for name, figures in counts.items() if figures[ON] > figures.get(PRISTINE, figures[ON])]
    if len(refused) == len(TOOLS):
        raise Skip("compute-sanitizer refuses this device: %s" % refused[TOOLS[0]])
    summary = "; ".join("%s: %s" % (name, ", ".join("%s %d" % pair for pair in figures.items())) for name, figures in counts.items() if figures)
    if refused:
        summary += "; refused: %s" % ", ".join("%s (%s)" % pair for pair in refused.items())
    return Result({"errors": counts, "refused": refused}, problems, not_run, summary or "nothing was run")
