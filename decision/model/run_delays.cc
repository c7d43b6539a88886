#include "decision/model/run_delays.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

namespace ccld::decision {
namespace {

constexpr Nanoseconds RunDelay::*fields[] = {
    &RunDelay::main_ns,    &RunDelay::proxies_ns,  &RunDelay::throttled_ns,   &RunDelay::pressure_ns,
    &RunDelay::starved_ns, &RunDelay::main_ran_ns, &RunDelay::proxies_ran_ns, &RunDelay::gpu_starved_ns};
constexpr size_t proxies_field = 1, main_ran_field = 5, proxies_ran_field = 6;  // of them

}  // namespace

void RunDelayHistory::add(const RunDelay& cumulated, Nanoseconds now_ns) {
  decltype(history_)::Values values;
  static_assert(std::size(fields) == std::tuple_size_v<decltype(values)>);
  for (size_t i = 0; i < values.size(); ++i) values[i] = cumulated.*fields[i];
  history_.add(values, now_ns);
}

bool RunDelayHistory::has_proxies() const { return history_.counted(proxies_field); }

bool RunDelayHistory::tells_runs() const {
  return history_.counted(main_ran_field) || history_.counted(proxies_ran_field);
}

bool RunDelayHistory::tells_since(Nanoseconds from_ns, Nanoseconds now_ns) const {
  // Looks come once a second, on a busy machine every three. Whatever hangs may have caught the thread that looks.
  constexpr Nanoseconds awaited_ns = 5 * ns_per_s;
  return history_.before_newest_ns() >= from_ns || now_ns - history_.newest_ns() > awaited_ns;
}

std::optional<RunDelay> RunDelayHistory::between(Nanoseconds from_ns, Nanoseconds to_ns) const {
  const auto grown = history_.between(from_ns, to_ns);
  if (!grown) return std::nullopt;
  RunDelay delay;
  for (size_t i = 0; i < grown->size(); ++i) delay.*fields[i] = std::min((*grown)[i], to_ns - from_ns);
  return delay;
}

namespace {

constexpr Nanoseconds turn_ns = 1000;  // counters keep microseconds: a turn is one

}  // namespace

void ProcessorTurns::add(int64_t turns, Nanoseconds waits_ns, Nanoseconds now_ns) {
  // The number comes from a message: it may be anything.
  constexpr int64_t turns_max = std::numeric_limits<Nanoseconds>::max() / turn_ns;
  history_.add({turn_ns * std::min(turns, turns_max), waits_ns}, now_ns);
}

std::optional<Nanoseconds> ProcessorTurns::longest_wait_ns(Nanoseconds from_ns, Nanoseconds now_ns) const {
  std::optional<Nanoseconds> longest_ns;
  for (Nanoseconds to_ns = now_ns; to_ns > from_ns; to_ns -= ns_per_s) {
    const auto grown = history_.between(to_ns - ns_per_s, to_ns);
    if (grown && (*grown)[0] >= turn_ns)
      longest_ns = std::max(longest_ns.value_or(0), (*grown)[1] / ((*grown)[0] / turn_ns));
  }
  return longest_ns;
}

}  // namespace ccld::decision
