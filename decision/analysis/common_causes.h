// Causes of hangs inside several communicators that are one: the same GPU, proxy or network device of a process, or the
// same connection between two.
// (Paper, section 4.2.2 looks at one communicator at a time; a device that stops holds all that use it just then.)
//
// Contract: pure, O(causes).
#pragma once

#include <vector>

#include "decision/locate/across.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

struct FoundCause {
  Cause* cause = nullptr;
  Finding finding;
  bool shared = false;  // it stands for others too: its finding does not tell yet who else waits
};

// Each into the first of its kind, at whose communicator it is told; the others are left out.
void join_common_causes(std::vector<FoundCause>&, const std::vector<Standing>&);

}  // namespace ccld::decision
