// How long the collectives of a job took in its earlier windows, and what steps waited for on their connections: which
// connections a communicator has become slow by. (Paper, section 4.2.2, S2; locate/slow_network.h has the rule.)
//
// Contract: plain state, not thread-safe. Bounded by past_kinds_max kinds of operations and past_connections_max
// connections of all of them (100 bytes each); what was not seen for past_windows_max windows is forgotten.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/whatif/collective_rounds.h"
#include "decision/whatif/past.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

class PastLinks {
 public:
  explicit PastLinks(const Settings& settings) : settings_(settings) {}

  // Compares the rounds of a communicator with the past, and learns from those that are as usual. `late`: ranks that
  // come late to them; `learn`: nothing else is slow. nullopt: no connection explains that they take longer.
  std::optional<SlowCollectives> take(const Communicator&, const std::vector<CollectiveRound>&,
                                      const std::vector<Rank>& late, bool learn, Nanoseconds since_ns);
  // After all communicators of a window.
  void end_window();

 private:
  struct Usual {
    Means transfer_ns;
    absl::flat_hash_map<Edge, EdgeBaseline> connections;
    uint64_t seen = 0;    // last window
    uint64_t rounds = 0;  // of this kind, so far
  };
  Usual* usual(CommUid, size_t kind);  // nullptr: too many
  void learn(const std::vector<const CollectiveRound*>& of_a_kind, Usual&);

  const Settings& settings_;
  uint64_t windows_ = 0;
  size_t connections_ = 0;  // of all kinds
  absl::flat_hash_map<std::pair<CommUid, size_t>, Usual> usual_;
};

}  // namespace ccld::decision::whatif
