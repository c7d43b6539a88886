// Instants of the service's clock as instants that people and other tools can read.
#pragma once

#include <string>

#include "decision/model/types.h"

namespace ccld::decision::report {

// The service decides on a monotonic clock; this is how far the calendar was from it when the report was made.
struct WallClock {
  int64_t realtime_minus_clock_ns = 0;

  // RFC 3339 in UTC with milliseconds: "2026-01-31T12:00:00.123Z".
  std::string text(Nanoseconds instant_ns) const;
};

}  // namespace ccld::decision::report
