// Whether a kernel that begins late waited for its host or for its GPU. (Past the paper's S1, section 4.2.2, which names
// the rank.)
//
// Contract: pure. Times in nanoseconds; launches are on the host's clock and begins on the GPU's, so only their changes
// mean something.
#pragma once

#include <cstddef>

#include "decision/measure/baseline.h"
#include "decision/model/round_entry.h"

namespace ccld::decision {

// A healthy round; `b.ranks` has room for its ranks.
void learn_launches(const RoundEntry&, KindBaseline& b);

// Of the `late_ns` by which the rank came later than its peers: how long its kernel had been launched by then, beyond the
// usual. Negative if it was launched later than usual; NaN: not known. `elsewhere_ns`: what kernels of other
// communicators took since its operation before.
double queued_ns(const KindBaseline&, size_t rank, const RoundCell&, double late_ns, double elsewhere_ns);

}  // namespace ccld::decision
