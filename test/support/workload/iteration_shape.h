// The size of an iteration (iteration.h). Units: bytes, milliseconds of device time. Threads: plain values.
#pragma once

#include <cstdint>

namespace ccld::workload {

struct IterationShape {
  int micro_batches = 2;
  int layers = 1;
  uint64_t tensor_bytes = 64 << 10, pipeline_bytes = 64 << 10, data_bytes = 256 << 10, expert_bytes = 64 << 10;
  double compute_ms = 2;      // of a layer's forward; backward takes twice as long
  bool forward_only = false;  // an evaluation
  bool overlap = false;
};

}  // namespace ccld::workload
