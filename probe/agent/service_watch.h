// Whether the decision service can be reached, and what is to be said about it: a line when it has been out of reach
// for a while, one when it is there after all.
//
// Contract: a service that restarts at once is nobody's news, and one that comes and goes is said at most once an hour.
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "probe/agent/clock.h"

namespace ccld::probe {

// A restart takes less.
constexpr uint64_t service_patience_ns = 5 * ns_per_s;
// At the end of the process that much is enough: a service that is there answers within milliseconds.
constexpr uint64_t service_patience_at_end_ns = 1 * ns_per_s;
constexpr uint64_t service_said_again_ns = 3600 * ns_per_s;

class ServiceWatch {
 public:
  enum class News : uint8_t {
    none,
    out_of_reach,  // a warning
    back,          // it ends that warning
    reached,       // for the first time, without a warning before
  };

  // Another service, or none.
  void restart() { *this = ServiceWatch(); }

  News look(bool connected, uint64_t now_ns, uint64_t patience_ns = service_patience_ns) {
    if (connected) {
      const bool first = !ever_reached_;
      ever_reached_ = true;
      away_since_ns_ = 0;
      if (said_) {
        said_ = false;
        return News::back;
      }
      return first ? News::reached : News::none;
    }
    if (away_since_ns_ == 0) away_since_ns_ = now_ns;
    const bool too_soon = said_ns_ != 0 && now_ns - said_ns_ < service_said_again_ns;
    if (said_ || too_soon || now_ns - away_since_ns_ < patience_ns) return News::none;
    said_ = true;
    said_ns_ = now_ns;
    return News::out_of_reach;
  }

 private:
  bool ever_reached_ = false;
  bool said_ = false;           // that it is out of reach, and not yet that it is back
  uint64_t said_ns_ = 0;        // 0: never
  uint64_t away_since_ns_ = 0;  // 0: it is not
};

}  // namespace ccld::probe
