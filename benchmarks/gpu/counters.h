// What the probing frames say that collectives sent and received, against what their algorithms must send.
// The oracle is that of the integration tests (test/integration/operations/expected_steps.h): one channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/gpu/ranks.h"

namespace ccld::gpu {

struct CountersRow {
  std::string operation;
  size_t count = 0;
  int rank = -1;  // -1: all ranks together
  uint64_t sent = 0, received = 0;
  uint64_t expected_sent = 0, expected_received = 0;
  bool right() const { return sent == expected_sent && received == expected_received; }
};

// Runs collectives with that algorithm ("Ring", "Tree") and protocol ("Simple", "LL", "LL128"), which the environment
// must have chosen, with one channel and buffers of that size, and compares. `folder`: where the probe puts its frames.
std::vector<CountersRow> check_counters(Ranks&, const std::string& algorithm, const std::string& protocol,
                                        size_t buffer_bytes, const std::string& folder);

}  // namespace ccld::gpu
