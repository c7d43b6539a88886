#include "decision/locate/p2p.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

constexpr size_t waits_shown_max = 8;

const char* verb(abi::Direction d) { return d == abi::Direction::send ? "Send" : "Recv"; }

}  // namespace

Finding p2p_not_entered(const Communicator& comm, const std::vector<P2pWait>& waits, const std::vector<Rank>& roots,
                        const ProcessTable& processes, const Settings& settings, Nanoseconds now_ns) {
  Finding f;
  f.fault = FaultClass::h1_not_entered;
  f.wanted = roots;
  f.confidence = 0.8;
  std::vector<bool> is_root(comm.ranks().size()), is_victim(comm.ranks().size());
  for (Rank r : roots) is_root[r.value] = true;
  // A process may claim to wait for any number: only ranks of which somebody has spoken are in the table.
  const auto is_known = [&](Rank r) { return static_cast<size_t>(r.value) < is_root.size(); };
  absl::flat_hash_map<int32_t, const P2pWait*> first;  // by root: the wait that has lasted longest
  for (const P2pWait& w : waits) {
    is_victim[w.waiter.value] = true;
    if (!is_known(w.peer) || !is_root[w.peer.value]) continue;
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
    Condition condition = Condition::not_called;
    switch (w.side) {
      case PeerSide::called:
        reason = absl::StrCat("called ", verb(theirs), " ", w.pair_seq, " with rank ", w.waiter.value,
                              " but did not launch it");
        component = Component::process;
        condition = Condition::not_launched;
        f.next_step = "Dump the stacks of the named process: it is inside the call or an open group.";
        break;
      case PeerSide::launched:
        reason = absl::StrCat("launched ", verb(theirs), " ", w.pair_seq, way, " rank ", w.waiter.value,
                              " but its kernel never started: GPU busy with or stuck in earlier work");
        component = Component::gpu;
        condition = Condition::kernel_not_started;
        f.next_step = "Check the GPU: XID errors, other kernels that run on it, a stuck stream.";
        break;
      default:
        if (w.replay != 0) {
          condition = Condition::replay_not_begun;
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
      condition = condition_of(life);
      component = life == Life::aborted       ? Component::application
                  : life == Life::host_silent ? Component::host
                                              : Component::process;
      f.next_step = life == Life::silent || life == Life::host_silent
                        ? "Check whether the process and its host live and can reach the service."
                        : "Look for the exit status and the log of the process, and for who stopped it.";
      // A job that ends passes through such states for an instant.
      f.hard |= cannot_return(life) && lost_for_ns(r, processes.newest_ns()) >= seconds_to_ns(settings.hard_evidence_s);
    }
    if (f.culprits.size() < culprits_max)
      f.culprits.push_back(make_culprit(comm, root, component, condition, std::move(reason)));
    else
      f.candidates.push_back(root);
    if (r.process)
      add_evidence(f, {.kind = EvidenceKind::telemetry_age,
                       .rank = root.value,
                       .value = static_cast<double>(now_ns - r.process->heard_ns) / 1e6});
  }
  for (Rank root : roots)
    if (const auto it = first.find(root.value); it != first.end() && it->second->replay != 0) {
      f.replay = it->second->replay;
      f.confidence = 0.7;
    }
  if (f.hard) f.confidence = 0.9;
  size_t shown = 0;
  for (const P2pWait& w : waits) {
    if (!is_known(w.peer)) continue;
    if (shown++ < waits_shown_max)
      add_evidence(f, {.kind = EvidenceKind::call_age,
                       .rank = w.waiter.value,
                       .peer = w.peer.value,
                       .subject = absl::StrCat(verb(w.direction), " ", w.pair_seq),
                       .value = static_cast<double>(now_ns - w.since_ns) / 1e6});
    if (f.waits.size() < waits_max)
      f.waits.push_back({.rank = w.waiter, .waits_for = w.peer, .what = WaitFor::call, .age_ns = now_ns - w.since_ns});
  }
  // The nearest to the culprits first.
  std::stable_partition(f.waits.begin(), f.waits.end(), [&](const Wait& w) { return is_root[w.waits_for.value]; });
  add_evidence(f, {.kind = EvidenceKind::still_for, .value = static_cast<double>(now_ns - comm.moved_ns()) / 1e6});
  for (size_t r = 0; r < is_victim.size(); ++r)
    if (is_victim[r] && !is_root[r]) f.victims.push_back(Rank{static_cast<int32_t>(r)});
  return f;
}

}  // namespace ccld::decision
