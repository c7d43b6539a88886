// For a library that is only measured: nvcc may add up the steps of a warp before it adds them to the sums.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

#define ccld_lane_closes_ll ccld_lane_closes
