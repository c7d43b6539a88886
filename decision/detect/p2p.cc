#include "decision/detect/p2p.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {
namespace {

// Its kernel's waits are visible, and one of them is for this peer; nullopt: not visible.
std::optional<bool> lane_waits(const RankModel& r, const P2pCall& call) {
  constexpr uint8_t needed = abi::signal_steps | abi::signal_waits;
  if ((call.signals & needed) != needed || call.plan != r.last.kernel_plan) return std::nullopt;
  for (const LaneState& l : r.last.lanes)
    if (l.wait != abi::WaitKind::none && l.peer == call.peer.value && l.direction == call.direction) return true;
  return r.last.lanes.empty() ? std::nullopt : std::optional<bool>(false);
}

// Its kernel runs and waits for nobody: it moves, or it is stuck.
bool stands_still(const RankModel& r) {
  constexpr uint8_t needed = abi::signal_steps | abi::signal_waits;
  return !r.last.lanes.empty() && std::none_of(r.last.lanes.begin(), r.last.lanes.end(), [](const LaneState& l) {
    return l.wait != abi::WaitKind::none;
  }) && std::any_of(r.last.p2p.begin(), r.last.p2p.end(), [&](const P2pCall& c) {
    return c.begun && c.plan == r.last.kernel_plan && (c.signals & needed) == needed;
  });
}

// Its proxy has steps for that rank that the network has not taken.
bool has_in_hand(const RankModel& r, Rank to) {
  return std::any_of(r.last.proxies.begin(), r.last.proxies.end(), [&](const ProxyState& p) {
    return p.direction == abi::Direction::send && p.peer == to.value && p.done < p.posted;
  });
}

// The calls of one rank that have not ended, by what the matching call of a peer is looked up with.
struct CallKey {
  int32_t peer;
  abi::Direction direction;
  uint64_t pair_seq;
  uint32_t replay;
  friend bool operator==(const CallKey&, const CallKey&) = default;
  template <class H>
  friend H AbslHashValue(H h, const CallKey& k) {
    return H::combine(std::move(h), k.peer, k.direction, k.pair_seq, k.replay);
  }
};
using Calls = absl::flat_hash_map<CallKey, const P2pCall*>;

// Whether it is known that the peer's GPU has not begun this replay.
bool misses_replay(const RankModel& peer, Rank me, abi::Direction theirs, const P2pCall& mine) {
  if (!peer.process || !peer.has_last) return false;
  if (peer.process->lost_batches() == 0) return true;
  return mine.replay > 1 && peer.has_ended(me, theirs, mine.pair_seq, mine.replay - 1);
}

PeerSide side_of(const RankModel& peer, const Calls& calls, Life life, bool outdated, Rank me, const P2pCall& mine) {
  const abi::Direction theirs = opposite(mine.direction);
  if (peer.has_ended(me, theirs, mine.pair_seq, mine.replay)) return PeerSide::ended;
  if (life == Life::not_watched) return PeerSide::unknown;
  const auto found = calls.find({me.value, theirs, mine.pair_seq, mine.replay});
  if (found != calls.end()) {
    const P2pCall& c = *found->second;
    if (c.only_captured()) return PeerSide::unknown;
    return c.begun ? PeerSide::inside : c.launched ? PeerSide::launched : PeerSide::called;
  }
  if (peer.last.p2p_total > peer.last.p2p.size()) return PeerSide::unknown;  // calls that found no room in a snapshot
  if (life == Life::well && outdated) return PeerSide::unknown;
  if (mine.replay != 0 && !misses_replay(peer, me, theirs, mine)) return PeerSide::unknown;
  return PeerSide::absent;
}

}  // namespace

std::vector<P2pWait> p2p_waits(const Communicator& comm, const ProcessTable& processes) {
  std::vector<P2pWait> waits;
  if (comm.ranks_in_p2p() == 0) return waits;
  struct Side {
    bool known = false, outdated = false;
    Life life = Life::unknown;
    Calls calls;
  };
  std::vector<Side> sides(comm.ranks().size());
  const auto side = [&](const RankModel& r) -> const Side& {
    Side& s = sides[r.rank.value];
    if (s.known) return s;
    s.known = true;
    s.life = life_of(r, processes);
    s.outdated = processes.newest_ns() - sampled_at(r) > processes.silent_limit_ns();
    for (const P2pCall& c : r.last.p2p) s.calls.try_emplace({c.peer.value, c.direction, c.pair_seq, c.replay}, &c);
    return s;
  };
  for (const RankModel& r : comm.ranks()) {
    if (!r.in_p2p() || life_of(r, processes) != Life::well) continue;
    const bool runs = std::any_of(r.last.p2p.begin(), r.last.p2p.end(),
                                  [](const P2pCall& c) { return c.begun && !c.only_captured(); });
    const bool still = runs && stands_still(r);
    const size_t first = waits.size();
    std::optional<P2pWait> own;  // for its own kernel
    for (const P2pCall& call : r.last.p2p) {
      // What is launched behind a kernel that runs waits for that one; and what would be seen to begin and has not
      // waits for its own GPU.
      if (!(runs ? call.begun : call.launched && (call.signals & abi::signal_times) == 0) || call.only_captured())
        continue;
      if (call.peer == r.rank) continue;
      const std::optional<bool> waiting = lane_waits(r, call);
      if (waiting == false && !still) continue;
      P2pWait w;
      w.waiter = r.rank;
      w.peer = call.peer;
      w.direction = call.direction;
      w.pair_seq = call.pair_seq;
      w.bytes = call.bytes;
      w.replay = call.replay;
      // The host's instants of a replay are those of the capture.
      w.since_ns =
          call.replay != 0 ? r.moved_ns : r.sampled_ns - static_cast<Nanoseconds>(call.launch_age_ms) * ns_per_ms;
      w.side = PeerSide::unknown;
      if (const RankModel* peer = comm.rank(call.peer)) {
        const Side& theirs = side(*peer);
        w.side = side_of(*peer, theirs.calls, theirs.life, theirs.outdated, r.rank, call);
        w.may_have_ended = w.side == PeerSide::absent && !peer->p2p_ended && call.replay == 0 && call.pair_seq > 1;
        // A Recv that misses something is seen to wait for it: this one has all that it needs, and stands still itself.
        // And what the peer's proxy has in hand was given to it by a Send.
        if (w.may_have_ended && call.direction == abi::Direction::recv &&
            (waiting == false || has_in_hand(*peer, r.rank))) {
          w.side = PeerSide::ended;
          w.may_have_ended = false;
        }
      }
      // Where both kernels run, or the peer's has ended, only steps tell, and only if they are seen: it waits for what
      // is on its way, or for nobody.
      if (w.side == PeerSide::ended) w.side = waiting ? PeerSide::inside : PeerSide::unknown;
      if (w.side == PeerSide::inside && still && !own) own = w;
      if (w.side == PeerSide::inside && waiting != true) continue;
      waits.push_back(w);
    }
    // Nobody it waits for is missing, and it does not move.
    if (own && waits.size() == first) waits.push_back(*own);
  }
  return waits;
}

const P2pCall* open_call(const RankModel& r) {
  for (const P2pCall& c : r.last.p2p)
    if (!c.launched && !c.begun && !c.only_captured()) return &c;
  return nullptr;
}

bool still_waits(const Communicator& comm, const P2pWait& w) {
  const RankModel* r = comm.rank(w.waiter);
  return r && std::any_of(r->last.p2p.begin(), r->last.p2p.end(), [&](const P2pCall& c) {
           return c.peer == w.peer && c.direction == w.direction && c.pair_seq == w.pair_seq && c.replay == w.replay;
         });
}

}  // namespace ccld::decision
