// For a library that is only measured: the last thread of a block adds everything up, and does not store the end in the frame.
#pragma once

#include "benchmarks/gpu/no_row_device.h"

#define round_ends no_row
#include "nccl/hooks/ccld_hooks_device.h"
