// What waits for the webhook's receiver, and what is to be sent next.
//
// Contract
//   Deliveries of one incident go in the order in which they were put; one that fails holds up only those of its incident.
//   A delivery that fails is tried again after 1 s, then twice as long, up to 5 minutes, less a part by chance, so that
//   services that failed together do not come again together. After a day it is given up.
//   What is held (a silence fits it) waits, for as long as it takes; if its incident closes meanwhile, nobody is told of it.
//   Bounded: without room the oldest delivery that has a newer one of its incident goes (replaced), else the oldest (dropped).
//   One that is being sent stays.
// Pure: time and chance are given. Threads: one at a time.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "decision/model/types.h"
#include "decision/report/webhook_counters.h"
#include "decision/webhook/delivery.h"

namespace ccld::decision::webhook {

struct QueueLimits {
  size_t deliveries_max = 1000;                    // of some 4 KB, in memory
  Nanoseconds delay_first_ns = ns_per_s;
  Nanoseconds delay_max_ns = 300 * ns_per_s;       // a receiver that is back is found within 5 minutes
  Nanoseconds held_look_ns = ns_per_s;             // how soon it is seen that nothing holds a delivery any more
  int64_t give_up_ms = 24 * 3600 * 1000;           // older news of a job is no alert any more
};

enum class Outcome { delivered, refused, failed };

class DeliveryQueue {
 public:
  using Held = std::function<bool(const Delivery&, int64_t realtime_ms)>;

  // `chance`: 0 to 1, another one each time. `held`: none, or what is not to be sent now.
  DeliveryQueue(const QueueLimits& limits, std::function<double()> chance, Held held = nullptr)
      : limits_(limits), chance_(std::move(chance)), held_(std::move(held)) {}

  void put(Delivery);
  // What is due, which is being sent from now on; nothing: none is.
  std::optional<Delivery> take(Nanoseconds now_ns, int64_t realtime_ms);
  // What became of the one taken. `not_before_ns`: the receiver asked not to be tried again sooner; 0: it did not.
  void done(Outcome, Nanoseconds now_ns, Nanoseconds not_before_ns = 0);
  // The newest delivery of each incident that closed while it was held, since this was last asked.
  std::vector<Delivery> take_silenced() { return std::exchange(silenced_, {}); }
  // When the next one is due, maybe in the past; nothing: none waits.
  std::optional<Nanoseconds> due_ns() const;

  const report::WebhookCounters& counters() const { return counters_; }
  void count_dropped(uint64_t n) { counters_.dropped += n; }

 private:
  struct Entry {
    Delivery delivery;
    unsigned attempts = 0;
    Nanoseconds due_ns = 0;
    bool sending = false;
  };
  std::vector<size_t> first_of_each_incident() const;
  bool hold(size_t, Nanoseconds now_ns, int64_t realtime_ms);
  void remove_up_to_closed(uint64_t incident);
  void make_room();
  void remove(size_t);

  QueueLimits limits_;
  std::function<double()> chance_;
  Held held_;
  std::deque<Entry> entries_;
  std::vector<Delivery> silenced_;
  report::WebhookCounters counters_;
};

}  // namespace ccld::decision::webhook
