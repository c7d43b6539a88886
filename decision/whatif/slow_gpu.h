// The GPU that takes its steps late in one kind of a communicator's operations.
// Contract: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "decision/whatif/connection_steps.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

struct SlowGpu {
  std::optional<SlowLink> link;  // nullopt: nobody stands out
  bool slow = false;             // steps wait longer for some GPU than before, whichever it is
};

// The GPU whose inputs are all there, and whose outputs have room: steps queue up for it on each connection from which
// it receives, and for no other GPU on those to which it sends. A connection that nobody reports tells nothing: a GPU
// of which only such ones lead on is not named, nor is one of `out_of_sight` (CollectiveRound), which may wait there.
SlowGpu find_slow_gpu(const Connections&, const StepReference&, const std::set<int32_t>& out_of_sight);

}  // namespace ccld::decision::whatif
