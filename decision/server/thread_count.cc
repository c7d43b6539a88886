#include "decision/server/thread_count.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/server/control_group.h"

namespace ccld::decision::server {

absl::StatusOr<size_t> threads_of(const std::string& text, const std::string& proc, const std::string& cgroup) {
  if (text == "auto") {
    size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, threads_auto_max);
    for (const std::string& line : control_group_lines("cpu.max", proc, cgroup)) {
      const std::vector<std::string> quota_and_period = absl::StrSplit(line, ' ');
      double quota_us = 0, period_us = 0;  // "max": no limit there
      if (quota_and_period.size() == 2 && absl::SimpleAtod(quota_and_period[0], &quota_us) &&
          absl::SimpleAtod(quota_and_period[1], &period_us) && quota_us > 0 && period_us > 0)
        threads = std::min(threads, std::max<size_t>(1, static_cast<size_t>(std::floor(quota_us / period_us))));
    }
    return threads;
  }
  size_t threads = 0;
  if (absl::SimpleAtoi(text, &threads) && threads >= 1 && threads <= threads_max) return threads;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is neither auto nor a number from 1 to ", threads_max));
}

}  // namespace ccld::decision::server
