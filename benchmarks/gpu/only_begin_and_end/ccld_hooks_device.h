// In place of nccl/hooks/ccld_hooks_device.h, for a library that is only measured: kernels write when they begin and
// end, and nothing else of the probe is in them. What a function does not do costs nothing: its calls are not there.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

#include "benchmarks/gpu/without_steps_device.h"
#include "benchmarks/gpu/without_waits_device.h"
