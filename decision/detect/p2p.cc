#include "decision/detect/p2p.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "decision/locate/hang.h"

namespace ccld::decision {
namespace {

struct Wait {
  Rank waiter, peer;
  const P2pCall* call;
  bool peer_called = false;  // it is inside the matching call, but has not launched it
};

enum class PeerSide { absent, called, launched, unknown };

abi::Direction opposite(abi::Direction d) {
  return d == abi::Direction::send ? abi::Direction::recv : abi::Direction::send;
}

PeerSide side_of(const RankModel& peer, Rank me, const P2pCall& mine) {
  const abi::Direction theirs = opposite(mine.direction);
  for (const P2pCall& c : peer.last.p2p)
    if (c.peer == me && c.direction == theirs && c.pair_seq == mine.pair_seq && c.replay == mine.replay) {
      if (c.only_captured()) return PeerSide::unknown;
      return c.launched || c.begun ? PeerSide::launched : PeerSide::called;
    }
  const auto ended = peer.p2p_ended.find({me.value, theirs});
  if (ended != peer.p2p_ended.end() && ended->second >= mine.pair_seq) return PeerSide::unknown;
  // Calls that found no room in its snapshot.
  if (peer.last.p2p_total > peer.last.p2p.size()) return PeerSide::unknown;
  return PeerSide::absent;
}

bool cannot_return(Life life) { return life == Life::gone || life == Life::stopped || life == Life::aborted; }

const char* reason_of(Life life) {
  switch (life) {
    case Life::gone: return ": its process is gone";
    case Life::stopped: return ": its process is stopped";
    case Life::aborted: return ": it aborted the communicator";
    default: return "";
  }
}

const char* verb(abi::Direction d) { return d == abi::Direction::send ? "Send" : "Recv"; }

}  // namespace

std::optional<Finding> find_p2p_hang(const Communicator& comm, const ProcessTable& processes, const Settings& settings,
                                     Nanoseconds now_ns, const MovedElsewhere& moved_elsewhere) {
  // With a collective in flight, that one says who is missing.
  if (!comm.rank_count_known() || comm.ranks_in_p2p() == 0 || comm.ranks_in_flight() > 0 || comm.ranks_in_replay() > 0)
    return std::nullopt;
  const Nanoseconds threshold = seconds_to_ns(std::max(settings.p2p_hang_suspect_s, settings.hang_suspect_s));
  if (now_ns - comm.moved_ns() < threshold) return std::nullopt;

  Nanoseconds known_up_to = processes.newest_ns();
  std::vector<Life> lives(comm.rank_count(), Life::unknown);
  for (const RankModel& r : comm.ranks()) {
    Life& life = lives[r.rank.value];
    life = life_of(r, processes);
    if (life == Life::unknown || life == Life::not_watched || life == Life::silent || life == Life::host_silent)
      return std::nullopt;  // nobody can say what it has called
    if (life != Life::well || r.left()) continue;
    if (processes.newest_ns() - r.sampled_ns > processes.silent_limit_ns()) return std::nullopt;
    known_up_to = std::min(known_up_to, r.sampled_ns);
  }
  const Nanoseconds stall_ns = known_up_to - comm.moved_ns();
  if (stall_ns < threshold) return std::nullopt;

  std::vector<Wait> waits;
  std::set<int32_t> waiters;
  bool unknown = false;
  for (const RankModel& r : comm.ranks()) {
    if (lives[r.rank.value] != Life::well) continue;
    for (const P2pCall& call : r.last.p2p) {
      // The host's ages of a replay are those of its capture.
      if (!call.launched || call.replay != 0 || call.only_captured()) continue;
      const Nanoseconds age_ns = static_cast<Nanoseconds>(call.launch_age_ms) * ns_per_ms + (now_ns - r.sampled_ns);
      const RankModel* peer = comm.rank(call.peer);
      if (age_ns < threshold || !peer || peer == &r) continue;
      const PeerSide side = side_of(*peer, r.rank, call);
      if (side == PeerSide::unknown) unknown = true;
      if (side != PeerSide::absent && side != PeerSide::called) continue;
      waits.push_back({r.rank, call.peer, &call, side == PeerSide::called});
      waiters.insert(r.rank.value);
    }
  }
  if (waits.empty()) return std::nullopt;

  Finding f;
  f.fault = FaultClass::h1_not_entered;
  std::map<int32_t, const Wait*> roots;
  for (const Wait& w : waits) {
    const Life life = lives[w.peer.value];
    if (cannot_return(life) || !waiters.contains(w.peer.value)) roots.try_emplace(w.peer.value, &w);
  }
  const bool hard =
      std::any_of(roots.begin(), roots.end(), [&](const auto& r) { return cannot_return(lives[r.first]); });
  // Those that cannot come back explain those that merely have not come.
  if (hard) std::erase_if(roots, [&](const auto& r) { return !cannot_return(lives[r.first]); });
  for (const auto& [rank, w] : roots) {
    const RankModel& r = *comm.rank(Rank{rank});
    if (hard) break;
    if (unknown) return std::nullopt;
    // Busy on another communicator, or with a call of this one that nobody waits for yet.
    if (r.in_p2p() || (r.process && now_ns - moved_elsewhere(*r.process, comm.uid()) < threshold)) return std::nullopt;
  }
  const Wait& first = *(roots.empty() ? &waits.front() : roots.begin()->second);
  f.signature.function = first.call->direction == abi::Direction::send ? abi::Function::send : abi::Function::recv;
  f.signature.count = first.call->bytes;
  f.signature.datatype = abi::Datatype::uint8;
  if (roots.empty()) {
    if (unknown) return std::nullopt;
    f.fault = FaultClass::h2_inconsistent;
    f.confidence = 0.5;
    for (int32_t r : waiters) f.candidates.push_back(Rank{r});
    f.next_step =
        "Every candidate waits for a call that its peer makes later: compare the order of their Send and Recv calls, "
        "and "
        "group those that must run together.";
  } else {
    f.hard = hard;
    f.confidence = hard ? 0.9 : 0.7;
    for (const auto& [rank, w] : roots) {
      const auto theirs = opposite(w->call->direction);
      std::string reason =
          w->peer_called ? absl::StrCat("called ", verb(theirs), " ", w->call->pair_seq, " with rank ", w->waiter.value,
                                        " but did not launch it")
                         : absl::StrCat("did not call ", verb(theirs), " ", w->call->pair_seq,
                                        theirs == abi::Direction::send ? " to" : " from", " rank ", w->waiter.value);
      const Life life = lives[rank];
      const Component component = life == Life::well && !w->peer_called ? Component::application
                                  : life == Life::aborted               ? Component::application
                                                                        : Component::process;
      if (f.culprits.size() < culprits_max)
        f.culprits.push_back(make_culprit(comm, Rank{rank}, component, absl::StrCat(reason, reason_of(life))));
      else
        f.candidates.push_back(Rank{rank});
    }
    f.next_step =
        "Dump the stacks of the named process: it is busy or blocked before the call, or its control flow skipped it.";
  }
  for (const Wait& w : waits) {
    const RankModel& r = *comm.rank(w.waiter);
    add_evidence(
        f, w.waiter.value,
        absl::StrCat("waits in ", verb(w.call->direction), " ", w.call->pair_seq, " with rank ", w.peer.value, " for"),
        static_cast<double>(w.call->launch_age_ms) + static_cast<double>(now_ns - r.sampled_ns) / 1e6, "ms");
  }
  add_evidence(f, -1, "nothing has moved on the communicator for", static_cast<double>(stall_ns) / 1e6, "ms");
  for (int32_t r : waiters)
    if (!roots.contains(r)) f.victims.push_back(Rank{r});
  if (stall_ns >= std::max(seconds_to_ns(settings.hang_confirm_s), 2 * threshold)) f.hard = true;
  return f;
}

}  // namespace ccld::decision
