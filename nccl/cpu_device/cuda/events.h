// Events: marks in streams that others wait for.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl/cpu_device/cuda/streams.h"

namespace ccld::cpu_device {

struct Capture;

struct EventState {
  std::mutex mutex;
  std::condition_variable completed_one;
  uint64_t recorded = 0;   // records submitted
  uint64_t completed = 0;  // the last of them that was reached
  uint64_t time_ns = 0;    // when
  bool timing = true;

  // Where a captured record stands in its graph (capture.cc owns both, under its lock).
  std::shared_ptr<Capture> captured_in;
  std::vector<cudaGraphNode_t> captured_nodes;

  uint64_t begin_record();
  void complete_record(uint64_t record);
  void wait_for(uint64_t record);
  bool is_complete(uint64_t* last_record);
};
using EventPtr = std::shared_ptr<EventState>;

EventPtr find_event(cudaEvent_t handle);

// Submits a record, or a wait for the last record; never captured.
StreamPosition record_now(const StreamPtr&, const EventPtr&, std::vector<StreamPosition> dependencies = {});
StreamPosition wait_now(const StreamPtr&, const EventPtr&, std::vector<StreamPosition> dependencies = {});

// As the CUDA call: captured when the stream is.
cudaError_t record_event(const StreamPtr&, const EventPtr&, unsigned flags);

}  // namespace ccld::cpu_device
