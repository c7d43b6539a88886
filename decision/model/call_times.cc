#include "decision/model/call_times.h"

#include <algorithm>

namespace ccld::decision {

std::optional<CallTimes> call_times(const RoundEntry& e) {
  std::optional<CallTimes> times;
  for (const RoundCell& c : e.cells) {
    if (!c.timed) continue;
    const Nanoseconds ns = c.duration_ns();
    if (!times) times = CallTimes{ns, ns};
    times->longest_ns = std::max(times->longest_ns, ns);
    times->shortest_ns = std::min(times->shortest_ns, ns);
  }
  return times;
}

std::optional<CallTimes> call_times(const P2pRounds& m) {
  if (m.rounds.empty()) return std::nullopt;
  const P2pRound& newest = m.rounds.back();
  if ((newest.flags & (round_no_kernel | round_lapped | round_not_measured | round_aborted)) != 0 ||
      newest.begin_device_ns == 0 || newest.end_device_ns < newest.begin_device_ns)
    return std::nullopt;
  const auto ns = static_cast<Nanoseconds>(newest.end_device_ns - newest.begin_device_ns);
  return CallTimes{ns, ns};
}

}  // namespace ccld::decision
