// How long a collective took: for the rank that came first, which waited for all others, and for the one that came
// last, which waited for nobody. By the clocks of their own GPUs, so no clocks are compared.
// Pure.
#pragma once

#include <optional>

#include "decision/model/round_entry.h"

namespace ccld::decision {

struct CallTimes {
  Nanoseconds longest_ns = 0, shortest_ns = 0;
};

// nullopt: no rank measured it.
std::optional<CallTimes> call_times(const RoundEntry&);
// Of the newest Send or Recv of one rank, whose two ends are not told apart.
std::optional<CallTimes> call_times(const P2pRounds&);

}  // namespace ccld::decision
