// One rank at work: rounds of {compute, call NCCL, wait}, until the options say that it is enough.
// Errors: a failing CUDA or NCCL call throws std::runtime_error with one line. Threads: one per process.
#pragma once

#include "test/support/workload/options.h"

namespace ccld::workload {

// Returns the number of wrong results.
uint64_t run_rank(const Options&);

}  // namespace ccld::workload
