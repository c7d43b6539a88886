// Kernels whose report was lost on the way: that they ran, and about when they ended, is known from the other ranks of
// their collective, or from the other end of their Send or Recv. Without them what their GPU did meanwhile looks like
// work of its own, and whatever it waited for could not be gained.
//
// Nothing says when such a kernel began. It is taken to have begun as soon as its GPU was free, so it keeps nobody
// waiting. A lost Recv is taken to have ended as soon after its Send as others of its connection, in the middle.
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/timeline/clocks.h"
#include "decision/timeline/timeline.h"

namespace ccld::decision::timeline {

struct Unreported {
  const Collective* of = nullptr;  // either of the matches is set
  const OneEnd* other_end = nullptr;
  Kernel kernel;
};

// By GPU; `order`: its reported kernels, in the order of their begins. Only what lies between two of these.
std::vector<std::vector<Unreported>> find_unreported(const Timeline&, const Matches&, const Clocks&,
                                                     const std::vector<std::vector<int>>& order);

}  // namespace ccld::decision::timeline
