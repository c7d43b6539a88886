#include "decision/model/run_delays.h"

#include <iterator>
#include <tuple>

namespace ccld::decision {
namespace {

constexpr Nanoseconds RunDelay::*fields[] = {&RunDelay::main_ns,       &RunDelay::proxies_ns, &RunDelay::throttled_ns,
                                             &RunDelay::pressure_ns,   &RunDelay::starved_ns, &RunDelay::main_ran_ns,
                                             &RunDelay::proxies_ran_ns};
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

std::optional<RunDelay> RunDelayHistory::between(Nanoseconds from_ns, Nanoseconds to_ns) const {
  const auto grown = history_.between(from_ns, to_ns);
  if (!grown) return std::nullopt;
  RunDelay delay;
  for (size_t i = 0; i < grown->size(); ++i) delay.*fields[i] = std::min((*grown)[i], to_ns - from_ns);
  return delay;
}

}  // namespace ccld::decision
