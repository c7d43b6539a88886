// Strong types of the decision service: ranks, communicators, operations and nanoseconds do not mix.
#pragma once

#include <compare>
#include <cstdint>

namespace ccld::decision {

template <class Tag, class Value>
struct Strong {
  Value value{};
  constexpr Strong() = default;
  constexpr explicit Strong(Value v) : value(v) {}
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Strong& s) {
    return H::combine(std::move(h), s.value);
  }
};

using Rank = Strong<struct RankTag, int32_t>;
using CommUid = Strong<struct CommUidTag, uint64_t>;
using OpSeq = Strong<struct OpSeqTag, uint64_t>;  // from 1; 0: none

// The paper's Trace ID.
struct TraceId {
  CommUid comm;
  OpSeq op;
  friend constexpr auto operator<=>(const TraceId&, const TraceId&) = default;
};

// Durations and instants in nanoseconds. Instants are those of the service's injected clock unless a name says otherwise.
using Nanoseconds = int64_t;
constexpr Nanoseconds ns_per_us = 1'000;
constexpr Nanoseconds ns_per_ms = 1'000'000;
constexpr Nanoseconds ns_per_s = 1'000'000'000;

}  // namespace ccld::decision
