// Takes the calls that show waits out of NCCL's device code. Behind ccld_hooks_device.h, before NCCL's primitives.
#pragma once

#define ccld_lane_waits(...) ((void)0)
#define ccld_pat_lane_waits(...) ((void)0)
#if defined(__CUDACC__)
// Upstream's number of polls between two looks at the abort flag (NCCL_SPINS_BEFORE_CHECK_ABORT), which the patches
// replace.
#define ccld_polls_between_looks 10000
#define ccld_polls_on(...) false
#else
#define ccld_polls_on(...) true
#endif
