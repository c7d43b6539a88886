// Kernel launches: from a function's address and its arguments to an operation of a stream.
#pragma once

#include <cuda_runtime_api.h>

#include "nccl/cpu_device/cuda/streams.h"

namespace ccld::cpu_device {

// How CUDA passes kernel arguments: pointers to each of them, or (driver API) one buffer described by `extra`.
struct LaunchArguments {
  void** pointers;
  void** extra;
};

// Copies the arguments, so that they may change once this returns.
cudaError_t make_launch(const void* function, dim3 grid, dim3 block, size_t dynamic_shared_bytes, LaunchArguments,
                        Operation* operation);

}  // namespace ccld::cpu_device
