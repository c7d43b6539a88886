#include "decision/server/run_id.h"

#include <random>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace ccld::decision::server {

std::string new_run_id(int64_t realtime_ns) {
  constexpr uint32_t six_digits = 0xffffff;
  return absl::StrFormat("%s-%06x", absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromUnixNanos(realtime_ns), absl::UTCTimeZone()),
                         std::random_device{}() & six_digits);
}

}  // namespace ccld::decision::server
