// How realtime of a job's machines differs, by the steps that cross between them.
//
// A step arrives after it was handed to the network. So the quickest step from a to b and the quickest one back, over
// further machines where there is no direct one, bound the difference of their clocks from both sides: an interval. As
// clocks drift steadily, the intervals of two windows bound the drift, too. Windows may be long: the time between two of
// them is that between their steps. What healthy steps told is so still known, a little wider, when a wire has become
// slow, and with it on which of its directions steps wait. Only means count that both ends took over the same steps.
//
// From the start on steps tell no more than both directions together, and nothing where they cross one way only. But the
// quickest batches of telemetry of two machines take about as long to the service, so they tell how their clocks differ,
// within some milliseconds. That is no proof (those of a window may all be slow), so it holds for its own window only.
//
// Contract: plain state, not thread-safe; nanoseconds. Bounded by pairs_max pairs of machines. Where intervals
// contradict each other a clock was set: all begins anew.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decision/measure/link_intervals.h"
#include "decision/model/types.h"

namespace ccld::decision {

class MachineClocks {
 public:
  struct Limits {
    double drift_part_max = 0;                // two clocks drift apart by no more, until windows tell their drift
    double batches_differ_max_ns = INFINITY;  // the quickest batches of two machines differ by no more in their way
    size_t operations_min = 1;                // of a window, that tell how quick the steps of two machines are
    double errors = 0;                        // standard errors by which they may seem quicker than they are
  };
  explicit MachineClocks(const Limits& limits) : limits_(limits) {}
  int number_of(std::string_view boot_id);
  // By machine: when its quickest batch arrived, by the service's clock, less when it was sent, by the machine's own.
  void batches_arrive(std::map<int, double> after_ns) { batches_after_ns_ = std::move(after_ns); }
  // Operations of a window: takes the differences of clocks out of their intervals. What is not known exactly is at
  // most so much (`ns`), or at least (`wire_at_least_ns`).
  void compare(const std::vector<Links*>& operations);

 private:
  using Ends = std::pair<int, int>;  // sender, receiver
  struct Range {
    double least = -INFINITY, most = INFINITY;
    Range within(const Range& o) const { return {std::max(least, o.least), std::min(most, o.most)}; }
    bool empty() const { return least > most; }
  };
  // By how much the receiver's clock is ahead.
  struct Difference {
    double first_ns = 0, last_ns = 0;  // when it was seen, by the sender's clock
    Range first, last;                 // what was known then
    Range drift;
  };
  Range told_by_batches(Ends) const;
  Range ahead(Ends, const Range& seen, double sent_realtime_ns);

  const Limits limits_;
  std::map<int, double> batches_after_ns_;
  std::map<std::string, int, std::less<>> numbers_;
  std::map<Ends, Difference> differences_;
};

}  // namespace ccld::decision
