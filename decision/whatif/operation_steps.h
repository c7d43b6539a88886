// The collectives of a communicator in a window by their kinds, with what the steps of each went through.
// Contract: pure, plain data; nanoseconds.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "decision/measure/passage.h"
#include "decision/whatif/collective_rounds.h"

namespace ccld::decision::whatif {

using Ends = std::pair<int32_t, int32_t>;  // ranks: sender, receiver

struct OperationSteps {
  std::map<Ends, Passage> passages;
  double transfer_ns = 0;      // from the last begin to the last end
  double begins_apart_ns = 0;  // from the first begin to the last
};

// The operations of a kind: steps of others are not alike.
struct OperationKind {
  size_t kind = 0;
  std::vector<const CollectiveRound*> rounds;
  std::vector<OperationSteps> operations;  // likewise
  double sum_ns = 0;                       // of their transfers
};

// Those of which stages are known, the one that takes most of the time first.
std::vector<OperationKind> kinds_in(const std::vector<CollectiveRound>&);

}  // namespace ccld::decision::whatif
