// What the GPUs of a round's ranks did since their previous operation in this communicator. (Paper, section 4.2.2: S1.)
//
// Contract: pure. Times in nanoseconds, each rank's on the clock of its own GPU; NaN: not known of this rank.
#pragma once

#include <vector>

#include "decision/model/communicator.h"
#include "decision/model/round_entry.h"

namespace ccld::decision {

struct RankGaps {
  std::vector<float> own_ns;   // the gap without the kernels of other communicators
  std::vector<float> last_ns;  // since the end of the kernel before, of whatever communicator
  double own_least_ns = 0, own_most_ns = 0;
  double least_ns = 0, most_ns = 0;  // with the kernels of other communicators
  bool torn = false;                 // of some rank reports were lost that could have been in its gap
};

// `gap_ns`, by rank: NaN: not measured. `from_durations`: these are no gaps, but durations taken from the longest one,
// which tell of computation only where the communicator has its GPUs to itself.
RankGaps gaps_of(const Communicator&, const RoundEntry&, const std::vector<double>& gap_ns, bool from_durations);

double median(std::vector<float>&);  // reorders; of nothing: 0

}  // namespace ccld::decision
