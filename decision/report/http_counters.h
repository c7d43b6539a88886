// Connections that the query API refused, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ccld::decision::report {

enum class HttpRefusal {
  no_room,     // no thread was free, and too many connections waited: answered 503
  pushed_out,  // its request had not come when room was needed for others: answered 503
  slow,        // the client took too long to send its request, or to take the answer
  too_long,    // the request: answered 4xx
};
constexpr int http_refusal_count = 4;

inline const char* name(HttpRefusal reason) {
  switch (reason) {
    case HttpRefusal::no_room: return "no_room";
    case HttpRefusal::pushed_out: return "pushed_out";
    case HttpRefusal::slow: return "slow";
    case HttpRefusal::too_long: return "too_long";
  }
  return "unknown";
}

struct HttpCounters {
  std::array<uint64_t, http_refusal_count> refused{};

  uint64_t& operator[](HttpRefusal reason) { return refused[static_cast<size_t>(reason)]; }
  uint64_t operator[](HttpRefusal reason) const { return refused[static_cast<size_t>(reason)]; }
  uint64_t refused_total() const {
    uint64_t sum = 0;
    for (const uint64_t count : refused) sum += count;
    return sum;
  }
};

}  // namespace ccld::decision::report
