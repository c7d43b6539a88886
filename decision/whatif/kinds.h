// Which kernels are the same work, and which GPUs have the same role.
// Contract: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decision/settings.h"
#include "decision/whatif/graph.h"

namespace ccld::decision::whatif {

struct Kinds {
  // Equal for the same operation on as many ranks, or for Sends and Recvs of a like size to the same sides.
  std::vector<size_t> of_node;
  std::vector<size_t> of_steps;  // of an operation: equal for those of a like size, whose steps are alike
  std::vector<int> role_of_gpu;  // equal if they do the same in the same order; none: it does nothing
};

// Of a node before which a kernel of its GPU is known: the same work of that GPU, after the same work.
uint64_t work_after(const Graph&, const Timeline&, const Kinds&, int node);

// Equal sizes have equal numbers; two that have the same differ by less than so many times (1: not at all).
uint64_t size_class(uint64_t bytes, double times);
// For transfers: by the size alone none takes so much longer than the others that its connection counts as slow.
uint64_t transfer_class(uint64_t bytes, const Settings&);

Kinds kinds_of(const Graph&, const Timeline&, const Settings&);

}  // namespace ccld::decision::whatif
