"""A first look before any part: is there a device, and how can ranks of one process exchange data on it?

Direct pointers are the way within a node. Should a machine not allow them, shared host memory does: better figures of the second choice than none.
"""
from .errors import VerifyError
from .layout import ON
from .ranks_process import RanksProcess

TRANSPORTS = (("direct pointers", {}), ("shared host memory", {"NCCL_P2P_DISABLE": "1"}))
ANSWER_TIMEOUT_S = 30.0


def device(layout, frames, allowance):
    """What the device says of itself; without one nothing can be checked."""
    try:
        with RanksProcess(layout, ON, 1, frames, {}, allowance) as process:
            return process.wait_ready().description
    except VerifyError as error:
        raise VerifyError("there is no device to check: %s" % error)


def choose_transport(layout, frames, allowance):
    """Sets the layout's to the first that works; returns its name and what was wrong with those before it."""
    reasons = []
    for name, variables in TRANSPORTS:
        layout.transport = variables
        try:
            with RanksProcess(layout, ON, 2, frames, {}, allowance) as process:
                wrong = process.ask("check AllReduce f32 sum 1031 0 0 0", ANSWER_TIMEOUT_S)["wrong"]
            if not wrong:
                return name, reasons
            reasons.append("%s: %s" % (name, wrong[0]))
        except VerifyError as error:
            reasons.append("%s: %s" % (name, error))
    # The parts that need no such ranks may still find something out.
    layout.transport = {}
    return "none", reasons
