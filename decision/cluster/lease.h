// Who leads: the node that has the lease. What a node knows of that, and what it is to do next.
//
//   switch (watch.next(now_ns)) { case take: ... watch.taken(asked_ns, revision) ... }
//
// A lease lasts so long from when it was asked for, by this node's own clock, so a node never believes that it leads
// when the bus would give the lease to another one. That alone does not keep a node that was stopped from writing:
// entries of the log are appended only behind the newest one that the node knows.
//
// Pure. Threads: one at a time.
#pragma once

#include <cstdint>

#include "decision/model/types.h"

namespace ccld::decision::cluster {

struct LeaseTimes {
  Nanoseconds lasts_ns = 3 * ns_per_s;
  Nanoseconds renew_ns = 1 * ns_per_s;      // twice more before it is over
  Nanoseconds try_ns = 500 * ns_per_ms;     // to take it
  Nanoseconds margin_ns = 500 * ns_per_ms;  // clocks of nodes and servers run alike within that, for so long
};

class LeaseWatch {
 public:
  enum class Step : uint8_t { none, take, renew };

  explicit LeaseWatch(const LeaseTimes& times = {}) : times_(times) {}

  Step next(Nanoseconds now_ns) const {
    if (revision_ != 0) return now_ns - asked_ns_ >= times_.renew_ns ? Step::renew : Step::none;
    return now_ns - tried_ns_ >= times_.try_ns && now_ns >= rests_until_ns_ ? Step::take : Step::none;
  }
  void tried(Nanoseconds now_ns) { tried_ns_ = now_ns; }
  void taken(Nanoseconds asked_ns, uint64_t revision) { asked_ns_ = tried_ns_ = asked_ns, revision_ = revision; }
  void lost() { revision_ = 0; }
  void rest_until(Nanoseconds ns) { rests_until_ns_ = ns; }  // it is not taken before: another node may

  bool held(Nanoseconds now_ns) const { return revision_ != 0 && now_ns < until_ns(); }
  Nanoseconds until_ns() const { return asked_ns_ + times_.lasts_ns - times_.margin_ns; }
  uint64_t revision() const { return revision_; }  // 0: none

 private:
  LeaseTimes times_;
  Nanoseconds asked_ns_ = 0, tried_ns_ = INT64_MIN / 2, rests_until_ns_ = INT64_MIN / 2;
  uint64_t revision_ = 0;
};

}  // namespace ccld::decision::cluster
