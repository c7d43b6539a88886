// Which messages a full queue between nodes drops first. Measurements of operations that have ended (detail) go first:
// the next operations show the same. The state of operations in flight, and news of ranks and processes (evidence), go
// last: hangs are found by them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "decision/model/events.h"

namespace ccld::decision::cluster {

enum class Priority : uint8_t { detail, evidence };

inline Priority priority_of(const Batch& batch) {
  const bool only_detail = std::all_of(batch.payloads.begin(), batch.payloads.end(), [](const Payload& p) {
    return std::holds_alternative<Rounds>(p) || std::holds_alternative<P2pRounds>(p) ||
           std::holds_alternative<Metrics>(p) || std::holds_alternative<NetQueues>(p);
  });
  return only_detail ? Priority::detail : Priority::evidence;
}

// A queue takes evidence until it is full, and detail until it is half full.
inline bool has_room(size_t waiting_bytes, size_t more_bytes, size_t bytes_max, Priority priority) {
  return waiting_bytes + more_bytes <= (priority == Priority::detail ? bytes_max / 2 : bytes_max);
}

}  // namespace ccld::decision::cluster
