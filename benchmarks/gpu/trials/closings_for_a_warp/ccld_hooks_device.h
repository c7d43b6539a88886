// For a library that is only measured: nvcc may add up the steps of a warp before it adds them to the sums.
#pragma once

#include "nccl/hooks/ccld_hooks_device.h"

__device__ __forceinline__ void trial_lane_closes(int direction, uint64_t step) {
  atomicAdd(&ncclShmem.channel.ccld_totals[ccld_total_steps + direction], static_cast<unsigned>(step));
}

#define ccld_lane_closes trial_lane_closes
