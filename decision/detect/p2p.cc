#include "decision/detect/p2p.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

constexpr size_t waits_shown_max = 8;

abi::Direction opposite(abi::Direction d) {
  return d == abi::Direction::send ? abi::Direction::recv : abi::Direction::send;
}

const char* verb(abi::Direction d) { return d == abi::Direction::send ? "Send" : "Recv"; }

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
  if (life == Life::unknown || life == Life::not_watched) return PeerSide::unknown;
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
  if (comm.ranks_in_p2p() == 0 || !comm.rank_count_known()) return waits;
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
      const RankModel* peer = comm.rank(call.peer);
      if (!peer || peer == &r) continue;
      const std::optional<bool> waiting = lane_waits(r, call);
      if (waiting == false && !still) continue;
      const Side& theirs = side(*peer);
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
      w.side = side_of(*peer, theirs.calls, theirs.life, theirs.outdated, r.rank, call);
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

Finding p2p_not_entered(const Communicator& comm, const std::vector<P2pWait>& waits, const std::vector<Rank>& roots,
                        const ProcessTable& processes, Nanoseconds now_ns) {
  Finding f;
  f.fault = FaultClass::h1_not_entered;
  f.wanted = roots;
  f.confidence = 0.8;
  std::vector<bool> is_root(comm.ranks().size()), is_victim(comm.ranks().size());
  for (Rank r : roots) is_root[r.value] = true;
  absl::flat_hash_map<int32_t, const P2pWait*> first;  // by root: the wait that has lasted longest
  for (const P2pWait& w : waits) {
    is_victim[w.waiter.value] = true;
    if (!is_root[w.peer.value]) continue;
    const P2pWait*& known = first[w.peer.value];
    if (!known || w.since_ns < known->since_ns) known = &w;
  }
  for (Rank root : roots) {
    const auto it = first.find(root.value);
    const RankModel& r = *comm.rank(root);
    const Life life = life_of(r, processes);
    P2pWait w;
    if (it != first.end()) w = *it->second;
    // What it sits in says more than what it has not come to.
    const P2pCall* open =
        life == Life::well && (it == first.end() || w.side == PeerSide::absent) ? open_call(r) : nullptr;
    if (open) {
      w.waiter = open->peer;
      w.direction = opposite(open->direction);
      w.side = PeerSide::called;
      w.pair_seq = open->pair_seq;
      w.replay = 0;
      w.bytes = open->bytes;
    } else if (it == first.end()) {
      continue;
    }
    if (f.signature.function == abi::Function::unknown) {
      f.signature.function = w.direction == abi::Direction::send ? abi::Function::send : abi::Function::recv;
      f.signature.count = w.bytes;
      f.signature.datatype = abi::Datatype::uint8;
    }
    const abi::Direction theirs = opposite(w.direction);
    const char* way = theirs == abi::Direction::send ? " to" : " from";
    std::string reason;
    Component component = Component::application;
    switch (w.side) {
      case PeerSide::called:
        reason = absl::StrCat("called ", verb(theirs), " ", w.pair_seq, " with rank ", w.waiter.value,
                              " but did not launch it");
        component = Component::process;
        f.next_step = "Dump the stacks of the named process: it is inside the call or an open group.";
        break;
      case PeerSide::launched:
        reason = absl::StrCat("launched ", verb(theirs), " ", w.pair_seq, way, " rank ", w.waiter.value,
                              " but its kernel never started: GPU busy with or stuck in earlier work");
        component = Component::gpu;
        f.next_step = "Check the GPU: XID errors, other kernels that run on it, a stuck stream.";
        break;
      default:
        if (w.replay != 0) {
          reason = absl::StrCat("its GPU did not begin replay ", w.replay, " of ", verb(theirs), " ", w.pair_seq, way,
                                " rank ", w.waiter.value);
          f.next_step =
              "Dump the stacks of the named process: the host may not have launched the graph, or its GPU may be stuck "
              "in work before this call (the launch of a graph cannot be seen from the host).";
          break;
        }
        reason = absl::StrCat("did not call ", verb(theirs), " ", w.pair_seq, way, " rank ", w.waiter.value);
        f.next_step =
            "Dump the stacks of the named process: it is busy or blocked before the call, or its control flow skipped "
            "it.";
        break;
    }
    if (lost(life)) {
      absl::StrAppend(&reason, ": ", life_text(life));
      component = life == Life::aborted       ? Component::application
                  : life == Life::host_silent ? Component::host
                                              : Component::process;
      f.next_step = life == Life::silent || life == Life::host_silent
                        ? "Check whether the process and its host live and can reach the service."
                        : "Look for the exit status and the log of the process, and for who stopped it.";
      f.hard |= cannot_return(life);
    }
    if (f.culprits.size() < culprits_max)
      f.culprits.push_back(make_culprit(comm, root, component, std::move(reason)));
    else
      f.candidates.push_back(root);
    if (r.process)
      add_evidence(f, root.value, "since the last telemetry of its process",
                   static_cast<double>(now_ns - r.process->heard_ns) / 1e6, "ms");
  }
  for (Rank root : roots)
    if (const auto it = first.find(root.value); it != first.end() && it->second->replay != 0) {
      f.replay = it->second->replay;
      f.confidence = 0.7;
    }
  if (f.hard) f.confidence = 0.9;
  size_t shown = 0;
  for (const P2pWait& w : waits) {
    if (shown++ == waits_shown_max) break;
    add_evidence(f, w.waiter.value,
                 absl::StrCat("waits in ", verb(w.direction), " ", w.pair_seq, " with rank ", w.peer.value, " for"),
                 static_cast<double>(now_ns - w.since_ns) / 1e6, "ms");
  }
  add_evidence(f, -1, "nothing has moved on the communicator for", static_cast<double>(now_ns - comm.moved_ns()) / 1e6,
               "ms");
  for (size_t r = 0; r < is_victim.size(); ++r)
    if (is_victim[r] && !is_root[r]) f.victims.push_back(Rank{static_cast<int32_t>(r)});
  return f;
}

}  // namespace ccld::decision
