// H2: operations whose signatures differ between ranks at the same operation number; found from history, with or
// without a hang. (Paper, section 4.2.2, Inconsistent-Hang, and 4.1.2, Operation Type Set. Measured: most mismatches do
// not hang at once, the data is silently wrong, and when the hang comes everybody is past the operation that caused
// it.)
//
// Contract: O(1) while signatures agree. An operation is judged when all ranks have named their signature or
// mismatch_settle_s after the first difference.
#pragma once

#include <optional>

#include "decision/locate/finding.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// The lowest operation that is ready to be judged; it is settled and not reported again.
std::optional<Finding> next_mismatch(Communicator&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
