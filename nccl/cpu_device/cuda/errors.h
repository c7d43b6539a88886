// Errors of the CUDA runtime: the last one of each thread, and their names.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

// An entry point of the CUDA runtime, driver or NVML.
#define CCLD_CUDA_API extern "C" __attribute__((visibility("default")))

namespace ccld::cpu_device {

// Remembers `error` as the thread's last one unless it is a success; returns it.
cudaError_t remember(cudaError_t error);

CUresult driver_error(cudaError_t error);

}  // namespace ccld::cpu_device
