#include "decision/report/wall_clock.h"

#include "absl/time/time.h"

namespace ccld::decision::report {

std::string WallClock::text(Nanoseconds instant_ns) const {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::FromUnixNanos(instant_ns + realtime_minus_clock_ns),
                          absl::UTCTimeZone());
}

}  // namespace ccld::decision::report
