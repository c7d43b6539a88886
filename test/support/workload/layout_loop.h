// One rank of a job with several communicators: iterations of tensor, pipeline, data and expert traffic (iteration.h).
// Errors: a failing CUDA or NCCL call throws std::runtime_error with one line. Threads: one per process.
#pragma once

#include <cstdint>

#include "test/support/workload/options.h"

namespace ccld::workload {

// Returns 0: results of a layout are not checked. A round of the status board is an iteration.
uint64_t run_layout_rank(const Options&);

}  // namespace ccld::workload
