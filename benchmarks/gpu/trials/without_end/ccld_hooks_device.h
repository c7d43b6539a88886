// For a library that is only measured: kernels do not note when they end.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

#include "benchmarks/gpu/without_begin_and_end_device.h"
