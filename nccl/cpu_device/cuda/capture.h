// Stream capture: turns what is submitted to streams into the nodes of a graph.
//
// Contract
//   Every call that submits, waits or synchronises asks here first; without a capture in the process that costs one
//   relaxed load. A stream joins a capture by waiting for an event recorded in it.
//   A call that CUDA forbids during a capture is refused and invalidates the capture, as on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "nccl/cpu_device/cuda/events.h"
#include "nccl/cpu_device/cuda/streams.h"

namespace ccld::cpu_device {

// If the stream is being captured, adds the operation to its graph and sets *captured.
cudaError_t capture_operation(const StreamPtr&, const Operation&, bool* captured);
cudaError_t capture_event_record(const StreamPtr&, const EventPtr&, unsigned flags, bool* captured);
cudaError_t capture_event_wait(const StreamPtr&, const EventPtr&, unsigned flags, bool* captured);

// For calls that wait for or ask about a stream or an event.
cudaError_t check_synchronizing_call(const StreamPtr&);
cudaError_t check_event_call(const EventPtr&);
// For calls that CUDA calls potentially unsafe during captures: allocation, freeing, synchronous copies, instantiating
// a graph (seen with driver 580).
cudaError_t check_unsafe_call();

// The stream is destroyed.
void leave_capture(const StreamPtr&);

}  // namespace ccld::cpu_device
