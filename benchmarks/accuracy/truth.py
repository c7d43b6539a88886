"""Which classes say the truth of a stopped process, by where it stood. Pure.

A rank that was stopped inside an operation which the others never finished is a hang inside the operation (H3). If the others could finish
without it, they hang in the next one, which it never entered (H1). In a tree, and where the last steps need no answer, some finish and some do
not: then both are true, the one of the operation that it is in, the other of the next one. If its GPU was not in a kernel, it had not begun what its
host had called, or had ended what others had not: of that both are true, too. So it is of a rank that had ended all that it called while its proxy still
had steps to send, which others lack.
"""


def classes_of_stop(stopped_rank, slots, in_kernel):
    """`slots`: the status board some time after the stop (run/board.py). `in_kernel`: whether the GPU was in a kernel when the process was stopped. The
    class that the case counts for comes first."""
    own = slots[stopped_rank]
    others = [slot for rank, slot in enumerate(slots) if rank != stopped_rank]
    if own.entered_round <= own.completed_round:
        return ("H1", "H3") if any(slot.completed_round < own.completed_round for slot in others) else ("H1",)
    held = any(slot.completed_round < own.entered_round for slot in others)
    went_on = any(slot.entered_round > own.entered_round for slot in others)
    if held and not in_kernel:
        return ("H1", "H3")
    return ("H3", "H1") if held and went_on else ("H3",) if held else ("H1",)
