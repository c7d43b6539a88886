// For a library that is only measured: connection endpoints show nothing.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

#include "benchmarks/gpu/without_steps_device.h"
