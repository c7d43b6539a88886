// For a library that is only measured: waits are not shown.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

#include "benchmarks/gpu/without_waits_device.h"
