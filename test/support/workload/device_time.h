// Compute work of a known length on the device.
// Errors: throws std::runtime_error. Threads: any.
#pragma once

#include <cuda_runtime_api.h>

namespace ccld::workload {

// Keeps the stream busy for this much device time, in stream order. On the CPU device through its own call, which a
// slowed device clock stretches; elsewhere the host waits before it goes on, which delays the operation alike.
void compute(cudaStream_t, double ms);

}  // namespace ccld::workload
