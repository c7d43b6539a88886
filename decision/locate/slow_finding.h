// What findings of slowness have in common, by whatever rules they were made.
// (Paper, section 4.2.2: S1, S2, S3.)
#pragma once

#include <string>
#include <vector>

#include "decision/locate/finding.h"

namespace ccld::decision {

// The number of a cause whose culprits are added next.
int next_cause(const Finding&);

// What to look at next, by class and culprits.
std::string slow_next_step(const Finding&);

// Findings have the same cause if they have a culprit in common, or neither has one.
bool same_cause(const std::vector<Culprit>&, const std::vector<Culprit>&);

}  // namespace ccld::decision
