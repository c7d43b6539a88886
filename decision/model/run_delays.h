// How long the threads of a process waited for a processor: run-queue delay, cumulated, over the last minutes.
//
// Contract: plain state; bounded by samples_max, of which the newest lie a second apart and older ones further. Samples
// come in order of time; others are ignored. Counters that fall (another process image) begin anew.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decision/model/types.h"

namespace ccld::decision {

struct RunDelay {
  Nanoseconds main_ns = 0, proxies_ns = 0;  // main thread; mean of NCCL's progress threads
  Nanoseconds throttled_ns = 0;             // its control group was, by a quota
  Nanoseconds pressure_ns = 0;              // some task of its host waited (PSI); only of who speaks for the host
  Nanoseconds starved_ns = 0;               // a thread that moves steps was ready and did not run
};

class RunDelayHistory {
 public:
  static constexpr size_t samples_max = 24;

  void add(const RunDelay& cumulated, Nanoseconds now_ns);
  bool empty() const { return samples_.empty(); }
  // There were progress threads.
  bool has_proxies() const { return !samples_.empty() && samples_.back().proxies_us != 0; }
  Nanoseconds oldest_ns() const { return samples_.empty() ? 0 : time_of(samples_.front()); }
  // Of the time between the two, linear between samples. nullopt: it is not known of most of this time.
  std::optional<RunDelay> between(Nanoseconds from_ns, Nanoseconds to_ns) const;

 private:
  struct Sample {
    uint32_t at_ms;  // since began_ns_
    // The lower bits: differences are what counts.
    uint32_t main_us, proxies_us, throttled_us, pressure_us, starved_us;
  };
  static Sample plus_part(const Sample&, const Sample& from, const Sample& to, double part);
  Sample at(Nanoseconds) const;
  Nanoseconds time_of(const Sample& s) const { return began_ns_ + s.at_ms * ns_per_ms; }
  void thin();
  Nanoseconds began_ns_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace ccld::decision
