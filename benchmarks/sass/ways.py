"""What is looked at: functions, what counts as data, and the ways through them whose cost matters."""
from collections import namedtuple

from instruction import ATOMIC, CALL_ANY, GLOBAL_LOAD, GLOBAL_STORE
from program import file_of

# Its kernel runs all functions of the operation: it has the code of this one inside, and calls the others.
KERNEL_FUNCTION = "AllReduce Sum f32 RING LL"
# name: as it is shown. function: in the words of upstream's ONLY_FUNCS.
Case = namedtuple("Case", "name function")
CASES = (Case("Ring LL", KERNEL_FUNCTION), Case("Ring LL128", "AllReduce Sum f32 RING LL128"),
         Case("Ring Simple", "AllReduce Sum f32 RING SIMPLE"), Case("NVLS", "AllReduce Sum f32 NVLS SIMPLE"))

ENTRY, CALL, DATA, EXIT, BEGIN_ROW, ARRIVAL, END_ROW = "entry", "call", "data", "exit", "begin row", "arrival", "end row"
BEGIN, END = "entry to first data", "last data to exit"
# part: BEGIN or END. thread: who takes it. by: what it comes by; nothing: the shortest way, which upstream has too.
Way = namedtuple("Way", "part thread by")
WAYS = (Way(BEGIN, "any", ()), Way(BEGIN, "notes the begin", (BEGIN_ROW,)),
        Way(END, "any, not watched", ()), Way(END, "arrives", (ARRIVAL,)), Way(END, "arrives last", (ARRIVAL, END_ROW)))


class Places:
    """Tells of instructions what they are part of, by where they come from in the source."""

    def __init__(self, source):
        self._source = source
        self._hooks = {}

    def is_at(self, stop, instruction, chain):
        if stop == DATA:
            return self._is_data(instruction, chain)
        if stop == CALL:
            return instruction.flow == CALL_ANY
        if stop == ARRIVAL:
            return instruction.kind == ATOMIC and self._is_in(chain, "ccld_thread_ends")
        # Rows of the frame: the GPU's other stores are not made by this file.
        row = instruction.kind == GLOBAL_STORE and instruction.bits128 and bool(chain) and file_of(chain[0]) == "frame_writer_device.h"
        return row and self._is_in(chain, "ccld_kernel_begins" if stop == BEGIN_ROW else "ccld_end_is_written")

    def _is_data(self, instruction, chain):
        """A load or store of what is communicated; not of flags, credits and settings."""
        if instruction.kind not in (GLOBAL_LOAD, GLOBAL_STORE) or not chain:
            return False
        name, around = file_of(chain[0]), [file_of(position) for position in chain]
        if name == "prims_ll.h":
            return "volatile.global" in self._source.at(chain[0])
        if name == "op128.h":
            return "common_kernel.h" in around or "prims_ll128.h" in around
        return name == "reduce_kernel.h"

    def _is_in(self, chain, function):
        return any(function in (self._source.function_at(position), self.hook_called_at(position)) for position in chain)

    def hook_called_at(self, position):
        """Name of the hook that an inserted line calls; None for any other line."""
        if position not in self._hooks:
            text = "" if file_of(position).startswith("ccld_") else self._source.at(position)
            at = text.find("ccld_")
            name = text[at:].split("(")[0] if at >= 0 else ""
            self._hooks[position] = name if name.replace("_", "").isalnum() else None
        return self._hooks[position]

    def hook(self, chain):
        """(name, chain of the call) of the inserted line that an instruction comes from; None for upstream's own."""
        for at in range(len(chain) - 1, -1, -1):
            name = self.hook_called_at(chain[at])
            if name:
                return name, chain[at:]
        return None

    def chunk(self, chain):
        """Where the primitive is called that the instruction belongs to, which moves a chunk of data; or None."""
        for position in reversed(chain):
            if "prims." in self._source.at(position):
                return position
        return None
