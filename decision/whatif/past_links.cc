#include "decision/whatif/past_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace ccld::decision::whatif {
namespace {

constexpr size_t past_kinds_max = 4096, past_connections_max = 1 << 16;
// From so many operations of a kind is learnt in a window: what is usual changes over minutes.
constexpr size_t learnt_max = 10;

double mean_ns(const std::vector<const CollectiveRound*>& rounds) {
  double sum_ns = 0;
  for (const CollectiveRound* r : rounds) sum_ns += r->transfer_ns;
  return sum_ns / static_cast<double>(rounds.size());
}

// From the first to the last.
double begins_apart_ns(const CollectiveRound& r) {
  double first_ns = INFINITY, last_ns = -INFINITY;
  for (const RankBegin& b : r.begins)
    if (std::isfinite(b.begun_ns)) first_ns = std::min(first_ns, b.begun_ns), last_ns = std::max(last_ns, b.begun_ns);
  return std::max(0.0, last_ns - first_ns);
}

// Proxies of several processes that are slow at once lack processors: that is nobody's fault in particular.
bool of_several_proxies(const SlowNetwork& n) {
  std::set<int32_t> ranks;
  for (const SlowEdge& e : n.edges) {
    if (e.stage.stage == Stage::sender_proxy) ranks.insert(e.stage.edge.sender);
    if (e.stage.stage == Stage::receiver_proxy) ranks.insert(e.stage.edge.receiver);
  }
  return !n.proxy && ranks.size() > 2;
}

// Whether others over the network wait for less than this part of the named ones: what all proxies lack makes all slow.
bool stands_out(const GrownNetwork& g) {
  constexpr double others_part_max = 0.5;
  double named = INFINITY, others = -1;
  for (const SlowEdge& e : g.network.edges) named = std::min(named, e.queued);
  std::map<std::pair<int32_t, int32_t>, double> steps;
  for (const auto& [edge, loss] : g.window.edges) {
    if (loss.net_device < 0) continue;
    for (Stage s : {Stage::sender_proxy, Stage::sender_nic, Stage::wire, Stage::receiver_proxy})
      steps[{edge.sender, edge.receiver}] += g.window.standing(loss, s);
  }
  for (const auto& [ends, waiting] : steps)
    if (std::none_of(g.network.edges.begin(), g.network.edges.end(),
                     [&](const SlowEdge& e) { return std::pair(e.stage.edge.sender, e.stage.edge.receiver) == ends; }))
      others = std::max(others, waiting);
  return others >= 0 && others < others_part_max * named;
}

}  // namespace

PastLinks::Usual* PastLinks::usual(CommUid comm, size_t kind) {
  const auto it = usual_.find({comm, kind});
  if (it != usual_.end()) return &it->second;
  return usual_.size() < past_kinds_max ? &usual_[{comm, kind}] : nullptr;
}

void PastLinks::learn(const std::vector<const CollectiveRound*>& rounds, Usual& past) {
  std::vector<double> transfers_ns;
  for (const CollectiveRound* r : rounds) transfers_ns.push_back(r->transfer_ns);
  past.transfer_ns.add(transfers_ns, settings_);
  size_t learnt = 0;
  for (const CollectiveRound* r : rounds) {
    if (r->links.empty()) continue;
    if (++learnt > learnt_max) break;
    for (const auto& [edge, intervals] : r->links) {
      auto connection = past.connections.find(edge);
      if (connection == past.connections.end()) {
        if (connections_ >= past_connections_max) continue;
        ++connections_;
        connection = past.connections.try_emplace(edge).first;
      }
      learn_waits(edge, intervals, r->begins, connection->second);
    }
  }
}

std::optional<SlowCollectives> PastLinks::take(const Communicator& comm, const std::vector<CollectiveRound>& rounds,
                                               const std::vector<Rank>& late, bool learn, Nanoseconds since_ns) {
  std::map<size_t, std::vector<const CollectiveRound*>> kinds;
  for (const CollectiveRound& r : rounds) kinds[r.kind].push_back(&r);
  SlowCollectives slow;
  slow.comm = &comm;
  GrownNetwork grown;
  grown.window.started_ns = since_ns;
  double lost_ns = 0, apart_ns = 0, transfer_ns = 0;
  for (auto& [kind, of] : kinds) {
    Usual* const past = usual(comm.uid(), kind);
    if (!past) continue;
    past->seen = windows_;
    // The first ones make connections.
    const uint64_t warm =
        std::min<uint64_t>(of.size(), settings_.warmup_rounds - std::min(settings_.warmup_rounds, past->rounds));
    past->rounds += of.size();
    of.erase(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(warm));
    if (of.empty()) continue;
    const double now_ns = mean_ns(of);
    const bool known = past->transfer_ns.size() >= settings_.whatif_past_means_min;
    const double usual_ns = known ? past->transfer_ns.middle() : now_ns;
    const double least_ns = known ? std::max(settings_.slow_round_min * usual_ns,
                                             settings_.slow_spread_factor * past->transfer_ns.deviation())
                                  : 0;
    if (!known || now_ns - usual_ns <= least_ns) {
      if (learn) this->learn(of, *past);
      continue;
    }
    for (const CollectiveRound* r : of) {
      slow.groups.push_back(r->group);
      apart_ns += begins_apart_ns(*r);
      lost_ns += r->transfer_ns - usual_ns, transfer_ns += r->transfer_ns;
      if (r->links.empty() || r->transfer_ns <= usual_ns) continue;
      if (grown.window.slow_rounds++ == 0) slow.op = r->op, slow.signature = grown.window.signature = r->signature;
      grown.window.staged_ns += r->transfer_ns - usual_ns;
      add_waits(r->links, past->connections, settings_.slow_spread_factor, r->begins, grown.window);
    }
  }
  if (grown.window.slow_rounds == 0 || lost_ns <= 0) return std::nullopt;
  slow.lost_part = lost_ns / transfer_ns;
  const bool large = lost_ns >= settings_.slow_component_share_min * (lost_ns + apart_ns);
  // Beside ranks that come late, and make most of the loss, only a queue is a cause of its own.
  grown.network = find_slow_network(comm, grown.window, late, !late.empty(), settings_.whatif_queued_steps_min,
                                    late.empty() || large ? 0 : settings_.whatif_standing_steps_min, grown.evidence);
  if (!grown.network.named() || of_several_proxies(grown.network)) return std::nullopt;
  grown.stands_out = stands_out(grown);
  slow.grown = std::move(grown);
  return slow;
}

void PastLinks::end_window() {
  if (++windows_ % past_windows_max != 0) return;
  absl::erase_if(usual_, [&](const auto& entry) {
    const bool over = entry.second.seen + past_windows_max <= windows_;
    if (over) connections_ -= entry.second.connections.size();
    return over;
  });
}

}  // namespace ccld::decision::whatif
