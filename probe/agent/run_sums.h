// What is known of kernels as a sum only, because their rows were overwritten or their rounds dropped.
#pragma once

#include <cstdint>

namespace ccld::probe {

// What several runs of a channel, one after the other, have done together.
struct RunSums {
  uint32_t runs = 0;
  uint32_t send_steps = 0, recv_steps = 0;
  uint32_t busy_ns = 0;     // their times from begin to end
  bool busy_known = false;  // the runs took less than the 4.29 s after which the GPU's sum begins anew
};

// Added up since the start.
struct SummedRuns {
  uint64_t runs = 0, send_steps = 0, recv_steps = 0;
  uint64_t busy_ns = 0;
  void add(const RunSums& sums) {
    runs += sums.runs;
    send_steps += sums.send_steps;
    recv_steps += sums.recv_steps;
    if (sums.busy_known) busy_ns += sums.busy_ns;
  }
  void add(const SummedRuns& other) {
    runs += other.runs;
    send_steps += other.send_steps;
    recv_steps += other.recv_steps;
    busy_ns += other.busy_ns;
  }
  void add_run(uint32_t send, uint32_t recv, uint64_t busy) {
    ++runs;
    send_steps += send;
    recv_steps += recv;
    busy_ns += busy;
  }
};

}  // namespace ccld::probe
