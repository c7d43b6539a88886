#include "decision/locate/links.h"

#include <algorithm>

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

  const auto blame = [&](Rank rank, Rank peer, Component component, double confidence, std::string reason) {
    v.culprit = make_culprit(comm, rank, component, std::move(reason));
    v.culprit.channel = edge.channel;
    v.culprit.peer = peer;
    if (component == Component::nic || component == Component::link) {
      v.culprit.net_name = rank == edge.sender ? net_name_of(comm, rank, abi::Direction::send, peer, edge.channel)
                                               : net_name_of(comm, rank, abi::Direction::recv, peer, edge.channel);
    }
    v.confidence = confidence;
  };
  const auto fact = [&](Rank rank, std::string what, double value, std::string unit) {
    v.evidence.push_back({rank.value, std::move(what), value, std::move(unit)});
  };
  fact(edge.sender, absl::StrCat("posted to rank ", edge.receiver.value, " on channel ", edge.channel), edge.posted,
       "steps");

  const ProxyState* tx = find_proxy(s, abi::Direction::send, edge.receiver, edge);
  const ProxyState* rx = find_proxy(r, abi::Direction::recv, edge.sender, edge);

  if (same_node(comm, edge.sender, edge.receiver) && !tx && !rx) {
    // Nothing lies between the two GPUs. Both poll; one does not see what the other wrote.
    blame(edge.sender, edge.receiver, Component::link, 0.4,
          absl::StrCat("posted ", step, ", which rank ", edge.receiver.value, " does not see"));
    v.single = false;
    return v;
  }
  if (tx) {
    fact(edge.sender, absl::StrCat("proxy handed to the network towards rank ", edge.receiver.value),
         static_cast<uint32_t>(tx->transmitted), "steps");
    fact(edge.sender, absl::StrCat("network said sent towards rank ", edge.receiver.value),
         static_cast<uint32_t>(tx->done), "steps");
    fact(edge.sender, "since its proxy last looked at this connection", tx->tick_age_ms, "ms");
  }
  if (rx) {
    fact(edge.receiver, absl::StrCat("proxy received from rank ", edge.sender.value),
         static_cast<uint32_t>(rx->received), "steps");
    fact(edge.receiver, absl::StrCat("proxy handed to its GPU from rank ", edge.sender.value),
         static_cast<uint32_t>(rx->transmitted), "steps");
    fact(edge.receiver, "since its proxy last looked at this connection", rx->tick_age_ms, "ms");
  }
  const auto well = [&](Rank rank) {
    return rank.value >= 0 && static_cast<size_t>(rank.value) < view.ranks.size() && view.ranks[rank.value].reports();
  };
  // The rank reports its endpoints and no proxy for this connection, so that proxy has not moved a step yet.
  const auto not_begun = [&](const RankModel* rank, const ProxyState* proxy) {
    return !proxy && rank && well(rank->rank) && !rank->last.lanes.empty();
  };

  // Who sends through another rank's proxy has none that could be seen: what is missing there was not measured.
  const bool sent_by_other_proxy = !tx && s && (s->hidden & abi::hidden_pxn) != 0;
  const auto leave_both_ends = [&](double confidence, std::string reason) {
    blame(edge.sender, edge.receiver, Component::link, confidence,
          absl::StrCat(std::move(reason), "; the proxy of another rank sends for it (PXN), which is not measured"));
    v.single = false;
    v.other_proxy = true;
  };

  // A proxy that has nothing left to do does not look any more; one that has and does not look has stopped.
  const bool tx_stopped = tx && well(edge.sender) && tx->tick_age_ms > fresh_ms && !reached(tx->done, edge.want);
  const bool rx_stopped = rx && well(edge.receiver) && rx->tick_age_ms > fresh_ms;

  // The receiver has taken what was in the slot before. The sender's own proxy gives slots, once the network has said
  // so.
  if (edge.slot && !same_node(comm, edge.sender, edge.receiver)) {
    v.given = tx != nullptr;
    const bool gave = tx && reached(tx->posted, edge.want);
    const bool sent = !tx || reached(tx->done, edge.want - static_cast<uint32_t>(steps_in_flight_max));
    if (gave)
      blame(edge.sender, edge.receiver, Component::gpu, 0.7,
            absl::StrCat("its proxy gave a slot for ", step, ", which its GPU does not see"));
    else if (sent_by_other_proxy)
      leave_both_ends(0.4, absl::StrCat("no slot for ", step));
    else if (sent || tx_stopped)
      blame(edge.sender, edge.receiver, Component::proxy, tx ? 0.8 : 0.5,
            absl::StrCat("its proxy does not give a slot for ", step));
    else
      blame(edge.sender, edge.receiver, Component::nic, 0.7,
            absl::StrCat("its network device does not say sent for what was in the slot of ", step));
    return v;
  }

  // From the receiver back to the sender: the first stage that has input and does not pass it on.
  if (rx && reached(rx->transmitted, edge.want)) {
    blame(edge.receiver, edge.sender, Component::gpu, 0.8,
          absl::StrCat("its proxy delivered ", step, ", which its GPU does not see"));
  } else if (rx && reached(rx->received, edge.want)) {
    blame(edge.receiver, edge.sender, Component::proxy, 0.85,
          absl::StrCat("its proxy received ", step, " and does not hand it to the GPU"));
  } else if (rx_stopped && !tx_stopped) {
    blame(edge.receiver, edge.sender, Component::proxy, 0.8, absl::StrCat("its proxy has stopped looking for ", step));
  } else if (tx && !reached(tx->transmitted, edge.want)) {
    if (tx->tick_age_ms > fresh_ms)
      blame(edge.sender, edge.receiver, Component::proxy, 0.85, absl::StrCat("its proxy has stopped before ", step));
    else if (rx && !reached(rx->posted, edge.want))
      blame(edge.receiver, edge.sender, Component::proxy, 0.7,
            absl::StrCat("its proxy has not posted a receive for ", step));
    else
      blame(edge.sender, edge.receiver, Component::nic, 0.7, absl::StrCat("its network device does not take ", step));
  } else if (tx_stopped && !rx_stopped) {
    blame(edge.sender, edge.receiver, Component::proxy, 0.8,
          absl::StrCat("its proxy handed ", step, " to the network and has stopped before it was sent"));
  } else if (sent_by_other_proxy) {
    leave_both_ends(0.5, absl::StrCat(step, " was posted and has not arrived at rank ", edge.receiver.value));
  } else if (rx && not_begun(s, tx)) {
    blame(edge.sender, edge.receiver, Component::proxy, 0.7, absl::StrCat("its proxy has not begun to hand on ", step));
    v.given = false;
  } else if (tx && not_begun(r, rx)) {
    blame(edge.receiver, edge.sender, Component::proxy, 0.7, absl::StrCat("its proxy has not begun to receive ", step));
    v.given = false;
  } else {
    blame(edge.sender, edge.receiver, Component::link, tx && rx ? 0.95 : 0.75,
          absl::StrCat(step, " was sent and has not arrived at rank ", edge.receiver.value));
    v.given = !(not_begun(s, tx) && not_begun(r, rx));
  }
  return v;
}

}  // namespace ccld::decision
