#include "probe/health/thread_run.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {

bool ThreadRun::open(const std::string& schedstat, const std::string& stat) {
  *this = ThreadRun();
  stat_.open(stat);
  if (schedstat_.open(schedstat) && run_delay_ns(schedstat_.read())) return true;
  *this = ThreadRun();
  return false;
}

std::optional<ThreadRun::Look> ThreadRun::look(uint64_t elapsed_ns) {
  std::string counters = schedstat_.read();
  const std::optional<uint64_t> counted_ns = run_delay_ns(counters);
  if (!counted_ns) return std::nullopt;
  const std::string stat = stat_.read();
  const std::string_view fields = fields_from_state(stat);
  const bool ready = !fields.empty() && fields[0] == 'R';
  // Who runs without a tick may show it here alone.
  const uint64_t ticks =
      stat_field(fields, stat_user_ticks).value_or(0) + stat_field(fields, stat_system_ticks).value_or(0);
  const bool ran = counters != counters_ || ticks != processor_ticks_;
  if (ran) lasting_ns_ = 0;  // the kernel has counted it
  if (ready && was_ready_ && !ran) lasting_ns_ += elapsed_ns;
  counters_ = std::move(counters);
  processor_ticks_ = ticks;
  was_ready_ = ready;
  const uint64_t before_ns = std::exchange(told_ns_, std::max(told_ns_, *counted_ns + lasting_ns_)),
                 ran_before_ns = std::exchange(told_ran_ns_, ran_ns(counters_)),
                 turns_before = std::exchange(told_turns_, turns(counters_));
  const bool hardly_ran =
      told_ran_ns_ - ran_before_ns < elapsed_ns / hardly && told_turns_ - turns_before <= elapsed_ns / turn_ns_min;
  return Look{told_ns_, told_ran_ns_, told_turns_, hardly_ran && told_ns_ - before_ns > elapsed_ns / 2};
}

uint64_t ran_ns(std::string_view schedstat) { return number_at(schedstat).value_or(0); }

uint64_t turns(std::string_view schedstat) {
  const size_t blank = schedstat.find(' '), last = schedstat.rfind(' ');
  return blank == last ? 0 : number_at(schedstat.substr(last)).value_or(0);
}

std::optional<uint64_t> run_delay_ns(std::string_view schedstat) {
  // "80891 12345 17": ran, waited, how often. Who reads its own file has run; all 0: the kernel does not count.
  const std::optional<uint64_t> ran = number_at(schedstat);
  const size_t blank = schedstat.find(' ');
  if (!ran || blank == std::string_view::npos) return std::nullopt;
  const std::optional<uint64_t> waited = number_at(schedstat.substr(blank));
  return *ran == 0 && waited == uint64_t{0} ? std::nullopt : waited;
}

std::string_view task_name(std::string_view stat) {
  const size_t begin = stat.find('('), end = stat.rfind(')');
  return begin != std::string_view::npos && end != std::string_view::npos && begin < end
             ? stat.substr(begin + 1, end - begin - 1)
             : std::string_view();
}

std::string_view fields_from_state(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  return name_end != std::string_view::npos && name_end + 2 < stat.size() ? stat.substr(name_end + 2)
                                                                          : std::string_view();
}

std::optional<uint64_t> stat_field(std::string_view fields, unsigned number) {
  for (unsigned i = 3; i < number; ++i) {
    const size_t blank = fields.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    fields.remove_prefix(blank + 1);
  }
  return number_at(fields);
}

}  // namespace ccld::probe
