// What is dropped first where telemetry comes faster than it goes: measurements of operations that have ended, of which
// the next ones say the same. Where operations stand, who is there and who has gone goes last: that is what a hang is
// found by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "decision/model/events.h"

namespace ccld::decision::cluster {

enum class Weight : uint8_t { detail, evidence };

inline Weight weight_of(const Batch& batch) {
  const bool only_detail = std::all_of(batch.payloads.begin(), batch.payloads.end(), [](const Payload& p) {
    return std::holds_alternative<Rounds>(p) || std::holds_alternative<P2pRounds>(p) ||
           std::holds_alternative<Metrics>(p) || std::holds_alternative<NetQueues>(p);
  });
  return only_detail ? Weight::detail : Weight::evidence;
}

// A queue takes evidence until it is full, and detail until it is half full.
inline bool has_room(size_t waiting_bytes, size_t more_bytes, size_t bytes_max, Weight weight) {
  return waiting_bytes + more_bytes <= (weight == Weight::detail ? bytes_max / 2 : bytes_max);
}

}  // namespace ccld::decision::cluster
