// Where an absent process is reported: of all places where it is waited for, the one that it would have reached first.
//
// Contract: pure; O(what is waited for + memberships).
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/locate/wait_graph.h"

namespace ccld::decision {

// One of the places where an absent actor is waited for.
struct Place {
  size_t stall;
  bool calls;
  // It had begun it, or is inside the call; or it had launched it, so that what it has not called comes later.
  enum Inside : uint8_t { no, launched, yes } inside;
  bool usual;  // where it would usually have gone on
  Nanoseconds since_ns;
  Rank rank;
  bool better_than(const Place& o) const {
    return std::make_tuple(yes - inside, !usual, calls, since_ns, stall) <
           std::make_tuple(yes - o.inside, !o.usual, o.calls, o.since_ns, o.stall);
  }
};

class Places {
 public:
  // `ends`: by node, those to find places for. All must outlive it.
  Places(const WaitGraph&, const std::vector<Stall>&, std::vector<bool> ends);

  const std::optional<Place>& best(int node) const { return best_[node]; }
  // It is missed in a barrier that comes before its best place: it may do what the barrier waits for.
  bool behind_barrier(int node) const;

 private:
  void find();
  void find_open_calls();
  void find_calls_behind_barriers();

  // A call, whoever makes it, that somebody misses of those who wait in a barrier.
  struct Call {
    int barrier;  // stall
    uint64_t pair_seq;
    uint32_t replay;
    bool sends;
    friend bool operator==(const Call&, const Call&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Call& c) {
      return H::combine(std::move(h), c.barrier, c.pair_seq, c.replay, c.sends);
    }
  };
  static Call call_of(int barrier, const P2pWait&);

  const WaitGraph& graph_;
  const std::vector<WaitNode>& nodes_;
  const std::vector<Stall>& stalls_;
  const std::vector<bool> ends_;
  std::vector<std::optional<Place>> best_;  // by node
  struct Barrier {
    size_t stall;
    Nanoseconds since_ns;
  };
  absl::flat_hash_map<std::pair<int, size_t>, const P2pWait*> missed_;  // by node and stall: the oldest wait for it
  static constexpr int several = -1;
  absl::flat_hash_map<Call, int> behind_;       // stall of those who miss it
  absl::flat_hash_map<int, Barrier> barriers_;  // by node: where it is missed in a barrier, and since when
};

// On which communicator the GPU usually goes on after what it has done last; uid 0: not known.
CommUid usual_next(const KernelLog&, int device);

}  // namespace ccld::decision
