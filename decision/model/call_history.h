// How many calls a communicator made in each ten seconds of the last quarter of an hour, and how long they took: what
// a person looks at to see when a job changed.
//
// Contract: plain state, time injected, not thread-safe. add() is a few additions; every ten seconds what is over is
// copied into a new list, which readers may keep. Bounded: three bytes for each ten seconds, so at most 300 bytes for a
// communicator; of one that makes no calls nothing.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decision/model/call_times.h"
#include "decision/model/small_log.h"

namespace ccld::decision {

class CallHistory {
 public:
  static constexpr Nanoseconds bucket_ns = 10 * ns_per_s;
  static constexpr size_t buckets_max = 90;  // a quarter of an hour

  struct Bucket {
    // Small steps for the number: a steady rate shall not look ragged. Coarser ones for microseconds, up to hours.
    using Calls = SmallLog<4>;
    using Micros = SmallLog<3>;
    uint8_t calls = 0, longest = Micros::none, shortest = Micros::none;
    uint64_t call_count() const { return Calls::decode(calls); }
    std::optional<CallTimes> times() const;  // means; nullopt: not measured
  };
  // One after the other, without gaps.
  struct Buckets {
    int64_t first = 0;  // begins at first * bucket_ns of the service's clock
    std::vector<Bucket> buckets;
  };

  // `times`: of one of them, if it was measured; it stands for all.
  void add(uint64_t calls, const std::optional<CallTimes>& times, Nanoseconds now_ns) {
    settle(now_ns);
    calls_ += calls;
    if (!times) return;
    ++measured_;
    longest_ns_ += times->longest_ns;
    shortest_ns_ += times->shortest_ns;
  }
  // Ten seconds may be over.
  void settle(Nanoseconds now_ns) {
    if (const int64_t number = now_ns / bucket_ns; number != open_) close(number);
  }

  // Those that are over; after the last one there were no calls. nullptr: none.
  const std::shared_ptr<const Buckets>& over() const { return over_; }
  // False: there was nothing to forget.
  bool forget_over() {
    if (over_ == nullptr) return false;
    over_.reset();
    return true;
  }

 private:
  void close(int64_t next);

  std::shared_ptr<const Buckets> over_;
  int64_t open_ = 0;  // number of the bucket under way
  uint64_t calls_ = 0;
  uint32_t measured_ = 0;
  Nanoseconds longest_ns_ = 0, shortest_ns_ = 0;  // sums over what was measured
};

}  // namespace ccld::decision
