// A rank's GPU and its place in the communicator: does the steps with CUDA and NCCL.
//
// Contract
//   NCCL's calls do not block (ncclConfig_t::blocking = 0) and streams are asked, not waited for: when something hangs,
//   the step ends after the timeout with an answer that says so. Kernels that hang cannot be ended, so the process has
//   to; but those of NCCL can, by aborting its communicator, which is what ends a test in a training process.
// Threads: one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "decision/validate/hardware.h"

namespace ccld::decision::validate {

// In a training process: NCCL's log stays the user's, buffers are smaller, and all is given back in the end.
struct InJob {
  std::vector<Neighbours> channels;                              // of the communicator whose links are tested
  std::function<std::chrono::steady_clock::time_point()> until;  // no step takes longer
};

struct HardwareOptions {
  int gpu = -1;           // CUDA device; -1: local_rank
  int local_rank = 0;     // modulo the number of devices
  size_t link_bytes = 0;  // 0: as the device is
  double timeout_s = 60;
  std::optional<InJob> in_job;
};

// Errors: NotFound: there is no such GPU; Unavailable: CUDA's words.
absl::StatusOr<std::unique_ptr<Hardware>> open_gpu(const HardwareOptions&);
// 0: none, or CUDA does not work here.
int gpu_count();

}  // namespace ccld::decision::validate
