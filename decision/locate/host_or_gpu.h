// Whether a late rank has a late host or a busy GPU, where its communicators disagree.
// (Paper, section 4.2.2, S1, which does not tell the two apart.)
//
// The two look alike for a moment: a host that waits for its GPU launches late, and a GPU is busy for an instant after
// its host was late. So one cause is assumed. It is decided by the launch delay as a part of the lateness, averaged
// over the communicators and weighted by what each loses.
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
