// Which communicators the analysis misses least, where there is no room for all.
//
// The order in which they go is that of Worth.
// Within each, those of the machine that has most of them go first, and among these the one that was heard least
// recently: who announces without end crowds out himself. What an open incident is about never goes.
//
// Contract: pure; linear in the communicators, apart from a sort of a part of them. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

enum class Worth : uint8_t {
  claimed,  // not all ranks have spoken: a claim costs whoever makes it nothing
  at_rest,  // whole, and nothing is in flight
  at_work,
};

// `needed`: those that open incidents are about. At most `count` of those up to that worth, the least missed first.
std::vector<CommUid> least_missed(const Watches&, const absl::flat_hash_set<CommUid>& needed, size_t count,
                                  Worth up_to);

}  // namespace ccld::decision
