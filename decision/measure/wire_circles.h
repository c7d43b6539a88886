// Around a circle of machines the differences of their clocks cancel: what steps spent on all its wires together is
// known without a healthy past, and however far clocks have drifted since then. Rings are circles; in trees the two
// directions of a connection are.
// Contract: plain state; nanoseconds.
#pragma once

#include <map>
#include <utility>

#include "decision/measure/slow_links.h"

namespace ccld::decision {

class WireCircles {
 public:
  explicit WireCircles(const Links&);
  // Of the smallest circle through this wire; infinite: there is none.
  double around_ns(const EdgeIntervals&);

 private:
  double path_ns(int from, int to) const;

  std::map<std::pair<int, int>, double> back_ns_;  // of all channels between two machines the same
  std::map<int, std::map<int, double>> hops_;
};

}  // namespace ccld::decision
