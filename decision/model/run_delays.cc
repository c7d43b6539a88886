#include "decision/model/run_delays.h"

#include <algorithm>

namespace ccld::decision {
namespace {

// The files are read once a second, and messages are sent more often: those without news say nothing of the time since.
constexpr Nanoseconds spacing_ns = 500 * ns_per_ms;
// What happened since the newest sample is taken to be as before for at most so long.
constexpr Nanoseconds continued_ns = 2 * ns_per_s;

uint32_t microseconds(Nanoseconds ns) { return static_cast<uint32_t>(ns / 1000); }
bool fell(uint32_t before, uint32_t now) { return static_cast<int32_t>(now - before) < 0; }

}  // namespace

void RunDelayHistory::add(const RunDelay& cumulated, Nanoseconds now_ns) {
  const auto age_ms = [&] { return static_cast<uint32_t>((now_ns - began_ns_) / ns_per_ms); };
  Sample s{0,
           microseconds(cumulated.main_ns),
           microseconds(cumulated.proxies_ns),
           microseconds(cumulated.throttled_ns),
           microseconds(cumulated.pressure_ns),
           microseconds(cumulated.starved_ns)};
  if (!samples_.empty()) {
    const Sample& last = samples_.back();
    if (now_ns - time_of(last) < spacing_ns) return;
    if (fell(last.main_us, s.main_us) || fell(last.proxies_us, s.proxies_us) || fell(last.pressure_us, s.pressure_us) ||
        fell(last.throttled_us, s.throttled_us) || fell(last.starved_us, s.starved_us) || fell(last.at_ms, age_ms()))
      samples_.clear();
  }
  if (samples_.empty()) began_ns_ = now_ns;
  s.at_ms = age_ms();
  samples_.push_back(s);
  if (samples_.size() == samples_max) thin();
}

// Leaves out what its neighbours tell nearly as well: where they lie closest for their age.
void RunDelayHistory::thin() {
  // Further apart than this part of their age they are needed, and the oldest goes.
  constexpr double close = 0.5;
  const Sample& newest = samples_.back();
  size_t least = 0;
  double least_part = close;
  for (size_t i = 1; i + 2 < samples_.size(); ++i) {
    const double age_ms = newest.at_ms - samples_[i].at_ms;
    const double part = (samples_[i + 1].at_ms - samples_[i - 1].at_ms) / (age_ms + 1000);
    if (part < least_part) least = i, least_part = part;
  }
  samples_.erase(samples_.begin() + static_cast<std::ptrdiff_t>(least));
}

RunDelayHistory::Sample RunDelayHistory::plus_part(const Sample& s, const Sample& from, const Sample& to, double part) {
  const auto grown = [part](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(static_cast<uint64_t>(part * (b - a)));
  };
  return {s.at_ms + grown(from.at_ms, to.at_ms),
          s.main_us + grown(from.main_us, to.main_us),
          s.proxies_us + grown(from.proxies_us, to.proxies_us),
          s.throttled_us + grown(from.throttled_us, to.throttled_us),
          s.pressure_us + grown(from.pressure_us, to.pressure_us),
          s.starved_us + grown(from.starved_us, to.starved_us)};
}

RunDelayHistory::Sample RunDelayHistory::at(Nanoseconds at_ns) const {
  auto after = std::find_if(samples_.begin() + 1, samples_.end(), [&](const Sample& s) { return time_of(s) >= at_ns; });
  if (after == samples_.end()) --after;
  const Sample &a = *(after - 1), &b = *after;
  const Nanoseconds known_ns = std::clamp(at_ns, time_of(samples_.front()), time_of(samples_.back()) + continued_ns);
  return plus_part(a, a, b, static_cast<double>(known_ns - time_of(a)) / static_cast<double>(time_of(b) - time_of(a)));
}

std::optional<RunDelay> RunDelayHistory::between(Nanoseconds from_ns, Nanoseconds to_ns) const {
  if (samples_.size() < 2 || to_ns <= from_ns) return std::nullopt;
  const Nanoseconds known_ns =
      std::min(to_ns, time_of(samples_.back()) + continued_ns) - std::max(from_ns, time_of(samples_.front()));
  if (2 * known_ns < to_ns - from_ns) return std::nullopt;
  const Sample a = at(from_ns), b = at(to_ns);
  const double whole = static_cast<double>(to_ns - from_ns) / static_cast<double>(known_ns);
  const auto ns = [whole](uint32_t from_us, uint32_t to_us) {
    return static_cast<Nanoseconds>(whole * 1000 * (to_us - from_us));
  };
  return RunDelay{ns(a.main_us, b.main_us), ns(a.proxies_us, b.proxies_us), ns(a.throttled_us, b.throttled_us),
                  ns(a.pressure_us, b.pressure_us), ns(a.starved_us, b.starved_us)};
}

}  // namespace ccld::decision
