// Which communicators the analysis misses least, where there is no room for all.
//
// The order in which they go is that of Worth (model/let_go.h).
// Within each, those of the machine that has most of them go first, and among these the one that was heard least
// recently: who announces without end crowds out himself.
//
// Contract: pure; linear in the communicators, apart from a sort of a part of them. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "decision/analysis/watch.h"
#include "decision/model/let_go.h"

namespace ccld::decision {

// `needed`: those that open incidents are about. At most `count` of those up to that worth, the least missed first.
// `silent_since_ns`: what was heard at that time at the latest is not at work any more.
std::vector<CommUid> least_missed(const Watches&, const absl::flat_hash_set<CommUid>& needed, size_t count, Worth up_to,
                                  Nanoseconds silent_since_ns);

// Claims that may make way for ranks of that machine, if they take room: those of machines that have more communicators
// than it, and those that nobody has repeated since then. So a machine with many takes nothing from one with few.
std::vector<CommUid> claims_that_make_way(const Watches&, const absl::flat_hash_set<CommUid>& needed, size_t count,
                                          std::string_view machine, Nanoseconds silent_since_ns);

}  // namespace ccld::decision
