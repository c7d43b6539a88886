// Counters of a process over the last minutes: by how much each has grown between two instants.
//
// Contract: plain state; bounded by samples_max, of which the newest lie a second apart and older ones further. Samples
// come in order of time; others, and what was not read anew, are ignored. Counters that fall (another process image)
// begin anew. Values in nanoseconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "decision/model/types.h"

namespace ccld::decision {

template <size_t counters>
class CounterHistory {
 public:
  static constexpr size_t samples_max = 24;
  using Values = std::array<Nanoseconds, counters>;

  void add(const Values& cumulated, Nanoseconds now_ns) {
    Sample s = sample(cumulated);
    if (!samples_.empty()) {
      const Sample& last = samples_.back();
      if (now_ns - time_of(last) < spacing_ns) return;
      bool fell = static_cast<int32_t>(age_ms(now_ns) - last.at_ms) < 0;
      for (size_t i = 0; i < counters; ++i) fell |= static_cast<int32_t>(s.us[i] - last.us[i]) < 0;
      if (fell) samples_.clear();
    }
    if (samples_.empty()) began_ns_ = now_ns;
    s.at_ms = age_ms(now_ns);
    samples_.push_back(s);
    if (samples_.size() == samples_max) thin();
  }
  bool empty() const { return samples_.empty(); }
  Nanoseconds oldest_ns() const { return samples_.empty() ? 0 : time_of(samples_.front()); }
  Nanoseconds newest_ns() const { return samples_.empty() ? 0 : time_of(samples_.back()); }
  // The sample before the newest; 0: there is none.
  Nanoseconds before_newest_ns() const { return samples_.size() < 2 ? 0 : time_of(samples_[samples_.size() - 2]); }
  // As of the newest sample, whether the counter is not 0.
  bool counted(size_t counter) const { return !samples_.empty() && samples_.back().us[counter] != 0; }
  // Of the time between the two, linear between samples. nullopt: it is not known of most of this time.
  std::optional<Values> between(Nanoseconds from_ns, Nanoseconds to_ns) const {
    if (samples_.size() < 2 || to_ns <= from_ns) return std::nullopt;
    const Nanoseconds known_ns =
        std::min(to_ns, time_of(samples_.back()) + continued_ns) - std::max(from_ns, time_of(samples_.front()));
    if (2 * known_ns < to_ns - from_ns) return std::nullopt;
    const Sample a = at(from_ns), b = at(to_ns);
    const double whole = static_cast<double>(to_ns - from_ns) / static_cast<double>(known_ns);
    Values grown;
    for (size_t i = 0; i < counters; ++i)
      grown[i] = static_cast<Nanoseconds>(whole * 1000 * static_cast<uint32_t>(b.us[i] - a.us[i]));
    return grown;
  }

 private:
  // What happens less than this apart is told in one message, or was not read anew.
  static constexpr Nanoseconds spacing_ns = 500 * ns_per_ms;
  // What happened since the newest sample is taken to be as before for at most so long.
  static constexpr Nanoseconds continued_ns = 2 * ns_per_s;

  struct Sample {
    uint32_t at_ms;  // since began_ns_
    // The lower bits: differences are what counts.
    std::array<uint32_t, counters> us;
  };
  static Sample sample(const Values& ns) {
    Sample s{};
    for (size_t i = 0; i < counters; ++i) s.us[i] = static_cast<uint32_t>(ns[i] / 1000);
    return s;
  }
  uint32_t age_ms(Nanoseconds now_ns) const { return static_cast<uint32_t>((now_ns - began_ns_) / ns_per_ms); }
  Nanoseconds time_of(const Sample& s) const { return began_ns_ + s.at_ms * ns_per_ms; }

  // `a` and a part of what was between it and `b`; more than 1 where it goes on beyond `b`.
  static Sample plus_part(const Sample& a, const Sample& b, double part) {
    const auto grown = [part](uint32_t from, uint32_t to) {
      return from + static_cast<uint32_t>(static_cast<uint64_t>(part * (to - from)));
    };
    Sample s{grown(a.at_ms, b.at_ms), {}};
    for (size_t i = 0; i < counters; ++i) s.us[i] = grown(a.us[i], b.us[i]);
    return s;
  }
  Sample at(Nanoseconds at_ns) const {
    auto after =
        std::find_if(samples_.begin() + 1, samples_.end(), [&](const Sample& s) { return time_of(s) >= at_ns; });
    if (after == samples_.end()) --after;
    const Sample &a = *(after - 1), &b = *after;
    const Nanoseconds known_ns = std::clamp(at_ns, time_of(samples_.front()), time_of(samples_.back()) + continued_ns);
    return plus_part(a, b, static_cast<double>(known_ns - time_of(a)) / static_cast<double>(time_of(b) - time_of(a)));
  }
  // Leaves out what its neighbours tell nearly as well: where they lie closest for their age.
  void thin() {
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

  Nanoseconds began_ns_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace ccld::decision
