"""What has to change in upstream's device code, besides inline PTX, for threads that are fibers.

Each rule names one file of upstream's src/device, what to find, what to put there, how often it must be found, and why
it exists. A rule that is found more or less often stops the build: upstream has changed and somebody has to look.
"""
import re
from collections import namedtuple

from ptx_calls import TransformError

Rule = namedtuple("Rule", "name file find replace count why")

RULES = [
    Rule("abort-poll-yields", "primitives.h",
         r"\+\+spins < NCCL_SPINS_BEFORE_CHECK_ABORT\)",
         "++spins < 2 || (::ccld::cpu_device::poll_again(spins) && ccld_polls_on(spins)))",
         1,
         "Every polling loop but PAT's calls checkAbort(). The first spin is free, from the second on the other "
         "threads of the block must run, or what is polled for never comes. Then the hooks look at how long the wait "
         "lasts, as they do on a GPU."),
    Rule("pat-gather-poll-yields", "all_gather.h",
         r"parallelFactor = \*pfPtr;",
         "{ ::ccld::cpu_device::poll_yield(); parallelFactor = *pfPtr; }",
         1,
         "PAT polls shared memory without checkAbort()."),
    Rule("pat-scatter-poll-yields", "reduce_scatter.h",
         r"parallelFactor = \*pfPtr;",
         "{ ::ccld::cpu_device::poll_yield(); parallelFactor = *pfPtr; }",
         1,
         "PAT polls shared memory without checkAbort()."),
    Rule("pat-gather-atomic-poll-yields", "all_gather.h",
         r"cuda::atomic_ref<",
         "cuda::ccld_polling_atomic_ref<",
         2,
         "PAT polls flags through atomic_ref: its load has to let the other threads run."),
    Rule("pat-scatter-atomic-poll-yields", "reduce_scatter.h",
         r"cuda::atomic_ref<",
         "cuda::ccld_polling_atomic_ref<",
         2,
         "PAT polls flags through atomic_ref: its load has to let the other threads run."),
    Rule("ll128-lockstep", "prims_ll128.h",
         r"(\n      dst\[i\] = shm\[i\];)(\n  \})",
         r"\1 __syncwarp();\2",
         1,
         "With misaligned buffers one slice's storeRegs() reads the stage in shared memory that the next slice's "
         "loadRegsBegin() writes. A real warp runs in lockstep there, fibers need the barrier."),
    Rule("credit-reaches-every-gpu", "prims_simple.h",
         r"\*connStepPtr = step;",
         "st_relaxed_sys_global(connStepPtr, step);",
         1,
         "An NVLS connection's credits lie in multicast memory, and a store of plain C++ cannot be given to all GPUs."),
    Rule("one-rank-kernels-registered", "onerank.cu",
         r"\(void const\*\)&(oneRankReduce<FuncPreMulSum<\w+>>)",
         r"::ccld::cpu_device::kernel(&\1)",
         12,
         "A kernel that is launched through void* has to say its parameters first."),
    Rule("gin-kernel-registered", "common.cu",
         r"\(void\*\)(ncclDevKernelGinResetSignalsAndCounters)\b",
         r"::ccld::cpu_device::kernel(&\1)",
         1,
         "A kernel that is launched through void* has to say its parameters first."),
    Rule("gin-traps", "common.cu",
         r"\bncclGin gin\(",
         "::ccld::cpu_device::GinStub gin(",
         1,
         "GPU-initiated networking exists only under nvcc."),
    Rule("missing-function-traps", "common.cu",
         r"void ncclDevFunc_Nop\(\) \{\}",
         "void ncclDevFunc_Nop() { ccld_trap_missing_function(ncclShmem.funcId); }",
         1,
         "Functions left out of the build map to this one. Doing nothing would leave wrong data without an error."),
]


def apply(path, text, rules=None):
    """Applies the rules for `path`, relative to src/device."""
    for rule in RULES if rules is None else rules:
        if rule.file != path:
            continue
        text, count = re.subn(rule.find, rule.replace, text)
        if count != rule.count:
            raise TransformError("rewrite rule '%s' was found %d times in %s instead of %d times; upstream's code or a "
                                 "patch changed what it relies on: %s" % (rule.name, count, path, rule.count, rule.why))
    return text


def check_files(paths, rules=None):
    for rule in RULES if rules is None else rules:
        if rule.file not in paths:
            raise TransformError("rewrite rule '%s': upstream has no src/device/%s" % (rule.name, rule.file))
