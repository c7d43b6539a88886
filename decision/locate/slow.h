// Location of slowness from what a window's rounds add up to.
// (Paper, section 4.2.2: S1, S2, S3.)
#pragma once

#include <optional>

#include "decision/locate/finding.h"
#include "decision/measure/slow_window.h"

namespace ccld::decision {

// nullopt: no cause that stays the same over the window.
std::optional<Finding> locate_slow(const Communicator&, const SlowWindow&, const Settings&);

// What to look at next, by class and culprits.
std::string slow_next_step(const Finding&);

// Findings have the same cause if they have a culprit in common, or neither has one.
bool same_cause(const Finding&, const Finding&);
bool same_cause(const std::vector<Culprit>&, const std::vector<Culprit>&);

}  // namespace ccld::decision
