// How long the diagnostic thread waits between two passes: often while something is in flight, but within its budget of
// processor time (which grows with the GPUs of the process, so that a node pays as much however its ranks are spread
// over processes); hardly at all once nothing has happened for a while.
//
// Contract
//   next() after every pass, with non-decreasing times. While something is in flight the wait is the period in force:
//   the wanted one, longer if the thread would use more than its budget, shorter again when it is cheap, and never so
//   long that rows are overwritten before they are read at the rate of kernels seen lately. Kernels that come so fast
//   that not even the wanted period is short enough lose rows anyway: then the budget decides, and their sums tell the
//   rest. Pure: time, processor time and activity are given.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

namespace ccld::probe {

struct PaceOptions {
  uint64_t sample_ns = 0;   // wanted period in flight
  uint64_t idle_ns = 0;     // longest wait soon after something was in flight
  uint64_t rest_ns = 0;     // longest wait once nothing was for `rest_after_ns`
  uint64_t budget_ppm = 0;  // of one core for each GPU; 0: none
};

struct Activity {
  unsigned gpus = 1;  // that have communicators
  bool in_flight = false;
  bool stuck = false;    // in flight, and nothing moves
  bool replays = false;  // kernels may begin without a word of the host
  uint64_t events = 0;   // kernels on the busiest channel, or operations / 2, so far: what fills the rings
};

class Pace {
 public:
  explicit Pace(const PaceOptions&);
  void set(const PaceOptions&);

  struct Step {
    uint64_t wait_ns;
    bool rest;  // nothing has been in flight for a while: wait for the doorbell
  };
  // `cpu_ns`: the thread's processor time, read only when wants_cpu() (any value otherwise).
  bool wants_cpu(uint64_t now_ns) const;
  Step next(uint64_t now_ns, uint64_t cpu_ns, const Activity&);

  uint64_t period_ns() const { return period_ns_; }  // in flight
  uint64_t slowdowns() const { return slowdowns_; }

 private:
  uint64_t longest_period_ns() const;
  void measure(uint64_t now_ns, uint64_t cpu_ns, const Activity&);

  PaceOptions options_;
  uint64_t period_ns_;
  uint64_t wait_ns_ = 0;
  uint64_t slowdowns_ = 0;
  uint64_t quiet_since_ns_ = 0;  // 0: in flight
  bool resting_ = false;

  uint64_t window_begin_ns_ = 0, window_cpu_ns_ = 0, window_events_ = 0;
  uint32_t window_passes_ = 0, window_busy_passes_ = 0;
  uint64_t events_per_s_ = 0;
};

}  // namespace ccld::probe
