#include "decision/locate/links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

bool reached(uint64_t counter, uint32_t want) { return steps_between(want, static_cast<uint32_t>(counter)) >= 0; }

// The proxy's work on the connection. Several connections may join the same ranks on a channel (trees; Send and Recv
// have their own), and a proxy may have several operations in hand: the one that the step belongs to, or is nearest to.
// A proxy that has moved more steps than the sender's GPU has posted serves another connection.
// nullptr: none is reported. The probe reports a proxy once it has moved a step of its first operation.
const ProxyState* find_proxy(const RankModel* r, abi::Direction direction, Rank peer, const StuckEdge& edge) {
  const ProxyState* best = nullptr;
  uint32_t best_off = 0;
  if (!r) return nullptr;
  for (const ProxyState& p : r->last.proxies) {
    if (p.direction != direction || p.peer != peer.value || p.channel != edge.channel) continue;
    if (reached(direction == abi::Direction::send ? p.transmitted : p.received, edge.posted + 1)) continue;
    const int64_t from = steps_between(static_cast<uint32_t>(p.base), edge.want),
                  beyond = from - static_cast<int64_t>(p.step_count);
    const auto off = static_cast<uint32_t>(from <= 0 ? 1 - from : std::max<int64_t>(0, beyond));
    if (!best || off < best_off) best = &p, best_off = off;
  }
  return best;
}

// Its own reports count.
bool well(const HangView& view, Rank rank) {
  return rank.value >= 0 && static_cast<size_t>(rank.value) < view.ranks.size() && view.ranks[rank.value].reports();
}

// With PXN the proxy of another rank of the node sends for this one. The only rank there whose proxy has work and has
// not polled for `fresh_ms`; nullptr: none, or several.
const RankModel* stopped_beside(const Communicator& comm, const HangView& view, Rank sender, uint32_t fresh_ms) {
  const RankModel* found = nullptr;
  bool several = false;
  comm.visit_ranks([&](const RankModel& r) {
    if (r.rank == sender || !same_node(comm, r.rank, sender)) return;
    if (!well(view, r.rank)) return;
    const bool stopped = std::any_of(r.last.proxies.begin(), r.last.proxies.end(), [&](const ProxyState& p) {
      return p.tick_age_ms > fresh_ms && p.done < p.base + p.step_count;
    });
    if (stopped) several |= std::exchange(found, &r) != nullptr;
  });
  return several ? nullptr : found;
}

}  // namespace

bool delivered(const Communicator& comm, const StuckEdge& edge) {
  if (steps_between(edge.want, edge.posted) < 0) return false;
  const ProxyState* rx = find_proxy(comm.rank(edge.receiver), abi::Direction::recv, edge.sender, edge);
  return rx ? reached(rx->transmitted, edge.want) : same_node(comm, edge.sender, edge.receiver);
}

EdgeVerdict judge_edge(const Communicator& comm, const HangView& view, const StuckEdge& edge, Nanoseconds fresh) {
  EdgeVerdict v;
  const RankModel *s = comm.rank(edge.sender), *r = comm.rank(edge.receiver);
  const std::string step = absl::StrCat("step ", edge.want, " on channel ", edge.channel);
  const auto fresh_ms = static_cast<uint32_t>(fresh / ns_per_ms);

  const auto blame = [&](Rank rank, Rank peer, Component component, Condition condition, double confidence,
                         std::string reason) {
    v.culprit = make_culprit(comm, rank, component, condition, std::move(reason));
    v.culprit.channel = edge.channel;
    v.culprit.peer = peer;
    if (component == Component::nic || component == Component::link) {
      v.culprit.net_name = rank == edge.sender ? net_name_of(comm, rank, abi::Direction::send, peer, edge.channel)
                                               : net_name_of(comm, rank, abi::Direction::recv, peer, edge.channel);
    }
    v.confidence = confidence;
  };
  const auto fact = [&](EvidenceKind kind, Rank rank, Rank peer, double value) {
    v.evidence.push_back(
        {.kind = kind, .rank = rank.value, .peer = peer.value, .channel = edge.channel, .value = value});
  };
  fact(EvidenceKind::steps_posted, edge.sender, edge.receiver, edge.posted);

  const ProxyState* tx = find_proxy(s, abi::Direction::send, edge.receiver, edge);
  const ProxyState* rx = find_proxy(r, abi::Direction::recv, edge.sender, edge);

  if (same_node(comm, edge.sender, edge.receiver) && !tx && !rx) {
    // Nothing lies between the two GPUs. Both poll; one does not see what the other wrote.
    blame(edge.sender, edge.receiver, Component::link, Condition::nothing_arrives, 0.4,
          absl::StrCat("posted ", step, ", which rank ", edge.receiver.value, " does not see"));
    v.single = false;
    return v;
  }
  if (tx) {
    fact(EvidenceKind::steps_to_network, edge.sender, edge.receiver, static_cast<uint32_t>(tx->transmitted));
    fact(EvidenceKind::steps_sent, edge.sender, edge.receiver, static_cast<uint32_t>(tx->done));
    fact(EvidenceKind::proxy_poll_age, edge.sender, edge.receiver, tx->tick_age_ms);
  }
  if (rx) {
    fact(EvidenceKind::steps_received, edge.receiver, edge.sender, static_cast<uint32_t>(rx->received));
    fact(EvidenceKind::steps_to_gpu, edge.receiver, edge.sender, static_cast<uint32_t>(rx->transmitted));
    fact(EvidenceKind::proxy_poll_age, edge.receiver, edge.sender, rx->tick_age_ms);
  }
  // The rank reports its endpoints and no proxy for this connection, so that proxy has not moved a step yet; or it has
  // handed on all of them, if the rank's kernel has ended.
  const auto not_begun = [&](const RankModel* rank, const ProxyState* proxy) {
    return !proxy && rank && well(view, rank->rank) && !rank->last.lanes.empty() &&
           view.ranks[static_cast<size_t>(rank->rank.value)].progress != Progress::done;
  };

  // Who sends through another rank's proxy has none that could be seen: what is missing there was not measured.
  const bool sent_by_other_proxy = !tx && s && (s->hidden & abi::hidden_pxn) != 0;
  const auto leave_both_ends = [&](double confidence, std::string reason) {
    if (const RankModel* const beside = stopped_beside(comm, view, edge.sender, fresh_ms)) {
      blame(beside->rank, edge.receiver, Component::proxy, Condition::proxy_stuck, 0.7,
            absl::StrCat(std::move(reason), "; rank ", edge.sender.value,
                         " sends by the proxy of another rank (PXN), and this one has stopped"));
      return;
    }
    blame(edge.sender, edge.receiver, Component::link, Condition::nothing_arrives, confidence,
          absl::StrCat(std::move(reason), "; the proxy of another rank sends for it (PXN), which is not measured"));
    v.single = false;
    v.other_proxy = true;
  };

  // A proxy that has nothing left to do does not look any more; one that has and does not look has stopped.
  const bool tx_stopped = tx && well(view, edge.sender) && tx->tick_age_ms > fresh_ms && !reached(tx->done, edge.want);
  const bool rx_stopped = rx && well(view, edge.receiver) && rx->tick_age_ms > fresh_ms;
  v.sender_may_starve = !tx || tx->tick_age_ms > fresh_ms;
  v.receiver_may_starve = !rx || rx->tick_age_ms > fresh_ms;

  // The receiver has taken what was in the slot before. The sender's own proxy gives slots, once the network has said
  // so.
  if (edge.slot && !same_node(comm, edge.sender, edge.receiver)) {
    v.given = tx != nullptr;
    const bool gave = tx && reached(tx->posted, edge.want);
    const bool sent = !tx || reached(tx->done, edge.want - static_cast<uint32_t>(steps_in_flight_max));
    if (gave)
      blame(edge.sender, edge.receiver, Component::gpu, Condition::data_not_seen, 0.7,
            absl::StrCat("its proxy gave a slot for ", step, ", which its GPU does not see"));
    else if (sent_by_other_proxy)
      leave_both_ends(0.4, absl::StrCat("no slot for ", step));
    else if (sent || tx_stopped)
      blame(edge.sender, edge.receiver, Component::proxy, Condition::proxy_stuck, tx ? 0.8 : 0.5,
            absl::StrCat("its proxy does not give a slot for ", step));
    else
      blame(edge.sender, edge.receiver, Component::nic, Condition::nic_stuck, 0.7,
            absl::StrCat("its network device has not sent what was in the slot of ", step));
    return v;
  }

  // From the receiver back to the sender: the first stage that has input and does not pass it on.
  if (rx && reached(rx->transmitted, edge.want)) {
    blame(edge.receiver, edge.sender, Component::gpu, Condition::data_not_seen, 0.8,
          absl::StrCat("its proxy delivered ", step, ", which its GPU does not see"));
  } else if (rx && reached(rx->received, edge.want)) {
    blame(edge.receiver, edge.sender, Component::proxy, Condition::proxy_stuck, 0.85,
          absl::StrCat("its proxy received ", step, " and does not hand it to the GPU"));
  } else if (rx_stopped && !tx_stopped) {
    blame(edge.receiver, edge.sender, Component::proxy, Condition::proxy_stuck, 0.8,
          absl::StrCat("its proxy has stopped looking for ", step));
  } else if (tx && !reached(tx->transmitted, edge.want)) {
    if (tx->tick_age_ms > fresh_ms)
      blame(edge.sender, edge.receiver, Component::proxy, Condition::proxy_stuck, 0.85,
            absl::StrCat("its proxy has stopped before ", step));
    else if (rx && !reached(rx->posted, edge.want))
      blame(edge.receiver, edge.sender, Component::proxy, Condition::proxy_stuck, 0.7,
            absl::StrCat("its proxy has not posted a receive for ", step));
    else
      blame(edge.sender, edge.receiver, Component::nic, Condition::nic_stuck, 0.7,
            absl::StrCat("its network device does not take ", step));
  } else if (tx_stopped && !rx_stopped) {
    blame(edge.sender, edge.receiver, Component::proxy, Condition::proxy_stuck, 0.8,
          absl::StrCat("its proxy handed ", step, " to the network and has stopped before it was sent"));
  } else if (sent_by_other_proxy) {
    leave_both_ends(0.5, absl::StrCat(step, " was posted and has not arrived at rank ", edge.receiver.value));
  } else if (rx && not_begun(s, tx)) {
    blame(edge.sender, edge.receiver, Component::proxy, Condition::proxy_not_begun, 0.7,
          absl::StrCat("its proxy has not begun to hand on ", step));
    v.given = false;
  } else if (tx && not_begun(r, rx)) {
    blame(edge.receiver, edge.sender, Component::proxy, Condition::proxy_not_begun, 0.7,
          absl::StrCat("its proxy has not begun to receive ", step));
    v.given = false;
  } else {
    blame(edge.sender, edge.receiver, Component::link, Condition::nothing_arrives, tx && rx ? 0.95 : 0.75,
          absl::StrCat(step, " was sent and has not arrived at rank ", edge.receiver.value));
    v.given = !(not_begun(s, tx) && not_begun(r, rx));
  }
  return v;
}

}  // namespace ccld::decision
