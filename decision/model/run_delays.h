// How long the threads of a process waited for a processor (run-queue delay), and ran, cumulated, over the last
// minutes; and for how long its proxies did not poll their connections.
//
// Contract: as CounterHistory.
#pragma once

#include <optional>

#include "decision/model/counter_history.h"

namespace ccld::decision {

struct RunDelay {
  Nanoseconds main_ns = 0, proxies_ns = 0;  // main thread; mean of NCCL's progress threads
  Nanoseconds throttled_ns = 0;             // its control group was, by a quota
  Nanoseconds pressure_ns = 0;              // some task of its host waited (PSI); only of who speaks for the host
  // A progress thread, or one that stands for a GPU (CPU device), was ready and hardly ran.
  Nanoseconds starved_ns = 0, gpu_starved_ns = 0;
  // How long the main thread, and the mean progress thread, ran; 0: not known, or it never did.
  Nanoseconds main_ran_ns = 0, proxies_ran_ns = 0;
};

class RunDelayHistory {
 public:
  void add(const RunDelay& cumulated, Nanoseconds now_ns);
  bool empty() const { return history_.empty(); }
  bool has_proxies() const;  // there were progress threads
  bool tells_runs() const;   // how long threads ran is known
  Nanoseconds oldest_ns() const { return history_.oldest_ns(); }
  // Whether two looks since `from_ns` tell how it has been since, or the last is so old that none may come.
  bool tells_since(Nanoseconds from_ns, Nanoseconds now_ns) const;
  // Nothing takes longer than the time between the two: what the kernel counts late belongs to the time before.
  std::optional<RunDelay> between(Nanoseconds from_ns, Nanoseconds to_ns) const;

 private:
  CounterHistory<8> history_;
};

// How often threads of a process that serve its operations got a processor, and how long they waited for it together.
class ProcessorTurns {
 public:
  void add(int64_t turns, Nanoseconds waits_ns, Nanoseconds now_ns);
  // How long they waited for each, in the worst second between the two: threads that only hand the processor to each
  // other get many turns, and hide for a while how long the others take. nullopt: it is not known, or there was none.
  std::optional<Nanoseconds> longest_wait_ns(Nanoseconds from_ns, Nanoseconds now_ns) const;

 private:
  CounterHistory<2> history_;
};

// A progress thread did not poll what it had begun; the sum of all threads.
using ProxyAwayHistory = CounterHistory<1>;

}  // namespace ccld::decision
