// Whether a rank that comes late has a late host or a busy GPU, where several communicators say so and differ.
// (Paper, section 4.2.2, S1, which does not tell the two apart.)
//
// A host that waits for its GPU launches late, and a GPU is busy for an instant after a host that was late. So it is
// taken as one cause: in the mean of the communicators, by what they lose, for how much of the lateness kernels lay
// launched.
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/model/verdict.h"

namespace ccld::decision {

// What one communicator says of a late rank.
struct LateWord {
  Component component = Component::process;  // process or gpu
  double queued_part = 0;                    // of its lateness, in which its kernels lay launched: 0 to 1
  double lost_share = 0;                     // of the communicator's time: 0 to 1
};

// What `own` says unless the others know better.
Component host_or_gpu(const LateWord& own, const std::vector<LateWord>& others);

}  // namespace ccld::decision
