"""Aborting communicators whose kernels wait, and what communicators leave behind: ours against upstream's."""
from .errors import OutOfTime, VerifyError
from .layout import OFF, ON, PRISTINE
from .part import Result
from .ranks_process import RanksProcess

RANKS = 2
WARM_UP, CYCLES, QUICK_CYCLES = 3, {"cuda": 20, "cpu": 5}, 3
ANSWER_TIMEOUT_S = 60.0
ABORT_MORE_S = 1.0       # than upstream's takes: nothing that a person notices
DEVICE_MORE_BYTES = 2 << 20  # the driver's own granule: less cannot be told from it
COUNTED = (("descriptors", "file descriptors"), ("frame_mappings", "mapped frames"), ("frame_files", "frame files"))


def device_bytes_lost(answer):
    return answer["before"]["device_free_bytes"] - answer["after"]["device_free_bytes"]


def leaks_of(variant, answer, base):
    """`base`: upstream's answer, or None when there is none."""
    lines = []
    for name, title in COUNTED:
        more = answer["after"][name] - answer["before"][name]
        if more > 0:
            lines.append("%s: %d more %s after all communicators ended" % (variant, more, title))
    lost = device_bytes_lost(answer) - (max(0, device_bytes_lost(base)) if base else 0)
    if lost > DEVICE_MORE_BYTES:
        lines.append("%s: %.1f MiB of device memory lost beyond upstream's" % (variant, lost / (1 << 20)))
    return lines


def slow_abort(variant, seconds, base_s):
    if base_s is not None and seconds > base_s + ABORT_MORE_S:
        return ["%s: an abort took %.1f s, upstream's %.1f s" % (variant, seconds, base_s)]
    return []


def run(context):
    cycles = QUICK_CYCLES if context.quick else CYCLES[context.layout.device]
    facts, problems, not_run = {}, [], []
    for variant in (PRISTINE, OFF, ON):
        if context.allowance.is_over():
            not_run.append(variant)
            continue
        context.show(variant)
        try:
            with RanksProcess(context.layout, variant, RANKS, context.frames, {}, context.allowance) as process:
                leaks = process.ask("leaks %d %d" % (WARM_UP, cycles), ANSWER_TIMEOUT_S)
                abort_s = process.ask("abort", ANSWER_TIMEOUT_S)["seconds"]
        except OutOfTime:
            not_run.append(variant)
            continue
        except VerifyError as error:
            problems.append(str(error))
            continue
        facts[variant] = {"leaks": leaks, "abort_s": round(abort_s, 3)}
        base = facts.get(PRISTINE, {})
        if variant != PRISTINE:
            problems += leaks_of(variant, leaks, base.get("leaks")) + slow_abort(variant, abort_s, base.get("abort_s"))
    summary = "%d communicators of %d ranks each ended; aborts of waiting kernels took %s" % (
        cycles, RANKS, ", ".join("%s %.2f s" % (variant, figures["abort_s"]) for variant, figures in facts.items()) or "no time")
    return Result({"ranks": RANKS, "cycles": cycles, "variants": facts}, problems, not_run, summary)
