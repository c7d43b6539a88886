"""What a GPU instruction does, from its opcode alone: for sm_90 and sm_100, whose instructions have 128 bits.

Not a disassembler: the toolkit's is not part of every toolkit, and the questions here are few. An opcode that is not
listed computes something and neither touches memory nor leaves the line of the code.
"""
import struct
from collections import namedtuple

BYTES = 16

# Kinds of memory operations, each counted apart.
GLOBAL_LOAD, GLOBAL_STORE = "global_loads", "global_stores"
SHARED_LOAD, SHARED_STORE = "shared_loads", "shared_stores"
LOCAL_LOAD, LOCAL_STORE = "spill_loads", "spill_stores"
ATOMIC, BLOCK_FENCE, FENCE, BARRIER = "atomics", "block_fences", "fences", "barriers"
KINDS = (GLOBAL_LOAD, GLOBAL_STORE, SHARED_LOAD, SHARED_STORE, LOCAL_LOAD, LOCAL_STORE, ATOMIC, BLOCK_FENCE, FENCE, BARRIER)

# The lowest nine bits of an opcode say what it does, the other three where the operands are. Instructions without
# operands of that sort have one form only.
_KIND_OF = {
    0x180: GLOBAL_LOAD,    # LD: any address
    0x181: GLOBAL_LOAD,    # LDG
    0x1A4: GLOBAL_LOAD,    # LDGMC: multimem
    0x1A5: GLOBAL_LOAD,
    0x185: GLOBAL_STORE,   # ST
    0x186: GLOBAL_STORE,   # STG
    0x184: SHARED_LOAD,    # LDS
    0x188: SHARED_STORE,   # STS
    0x183: LOCAL_LOAD,     # LDL
    0x187: LOCAL_STORE,    # STL
    0x18A: ATOMIC,         # ATOM
    0x18B: ATOMIC,
    0x18C: ATOMIC,         # ATOMS
    0x18D: ATOMIC,
    0x18E: ATOMIC,         # RED
    0x1A8: ATOMIC,         # ATOMG
    0x1A9: ATOMIC,
    0x11D: BARRIER,        # BAR
}
_MEMORY_FORMS = (1, 4)     # 0x3.., 0x9..
_MEMBAR, _BRA, _BRX, _EXIT, _RET, _CALL, _CALL_REGISTER, _NOP = 0x992, 0x947, 0x949, 0x94D, 0x950, 0x943, 0x343, 0x918
_BARRIER_BY_REGISTERS = 0xB1D
_ALWAYS, _NEVER = 0x7, 0xF  # predicates

STEP, BRANCH, JUMP, EXIT, RETURN, CALL, CALL_ANY = "step", "branch", "jump", "exit", "return", "call", "call any"

# kind: of memory operation, or None. flow: how it goes on. target: address, of BRANCH and JUMP. conditional: of all.
Instruction = namedtuple("Instruction", "kind flow target conditional bits128 counts")


class InstructionError(Exception):
    pass


def decode(code, address):
    low, high = struct.unpack_from("<QQ", code, address)
    opcode = low & 0xFFF
    predicate = low >> 12 & 0xF
    conditional = predicate != _ALWAYS
    flow, target = STEP, None
    if opcode == _BRA:
        # Two predicates and, in bit 27, "if the warp has diverged": such a warp takes turns somewhere aside.
        conditional = conditional or high >> 23 & 0xF != 7
        if not high >> 27 & 1:
            flow, target = BRANCH if conditional else JUMP, address + BYTES + 4 * _offset(low, high)
    elif opcode == _BRX:
        raise InstructionError("a jump through a table at 0x%x, which is not followed" % address)
    elif opcode == _EXIT:
        flow = EXIT
    elif opcode == _RET:
        flow = RETURN
    elif opcode == _CALL:
        flow = CALL
    elif opcode == _CALL_REGISTER:
        flow = CALL_ANY
    kind = _kind(opcode, high) if predicate != _NEVER else None  # such ones only keep others apart
    bits128 = kind in (GLOBAL_LOAD, GLOBAL_STORE) and high >> 9 & 7 == 6
    return Instruction(kind, flow, target, conditional, bits128, opcode != _NOP)


def _kind(opcode, high):
    if opcode == _MEMBAR:
        return FENCE if high >> 12 & 3 else BLOCK_FENCE  # scope: block, or further
    if opcode == _BARRIER_BY_REGISTERS:
        return BARRIER
    return _KIND_OF.get(opcode & 0x1FF) if opcode >> 9 in _MEMORY_FORMS else None


def _offset(low, high):
    """Of a branch, in words of four bytes: 48 bits from bit 34 on, and below them eight from bit 16 on."""
    value = ((low >> 34 | high << 30) & (1 << 48) - 1) << 8 | low >> 16 & 0xFF
    return value - (1 << 56) if value >> 55 else value
