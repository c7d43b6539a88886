"""Which class a stopped process is, by where it stood. Pure.

A rank that was stopped inside an operation which the others never finished is a hang inside the operation (H3). If the others could finish
without it, they hang in the next one, which it never entered (H1).
"""


def class_of_stop(stopped_rank, slots):
    """`slots`: the status board some time after the stop (run/board.py)."""
    own = slots[stopped_rank]
    others = max(slot.entered_round for rank, slot in enumerate(slots) if rank != stopped_rank)
    inside = own.entered_round > own.completed_round
    return "H3" if inside and others <= own.entered_round else "H1"
