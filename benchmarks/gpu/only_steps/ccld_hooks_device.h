// In place of nccl/hooks/ccld_hooks_device.h, for a library that is only measured: connection endpoints show their
// steps, and nothing else of the probe is in the kernels but what finds the frame.
#pragma once

#include "benchmarks/gpu/without_rows_device.h"

#include "nccl/hooks/ccld_hooks_device.h"

#include "benchmarks/gpu/without_begin_and_end_device.h"
#include "benchmarks/gpu/without_waits_device.h"
