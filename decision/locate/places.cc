#include "decision/locate/places.h"

#include <algorithm>
#include <utility>

namespace ccld::decision {
namespace {

using Kind = WaitNode::Kind;

// When the first of those that wait there began to: of so many ranks, spread over all.
constexpr size_t waiting_looked_max = 4096;
Nanoseconds waiting_since_ns(const Stall& s) {
  Nanoseconds since = INT64_MAX;
  const auto& ranks = s.comm->ranks();
  const size_t stride = ranks.size() / waiting_looked_max + 1;
  if (s.view.replay == 0)
    for (size_t i = 0; i < ranks.size(); i += stride)
      if (const RankModel* r = ranks.find(i))
        if (const InFlightOp* o = find_op(*r, s.view.key()))
          since = std::min(since, r->sampled_ns - static_cast<Nanoseconds>(o->enter_age_ms) * ns_per_ms);
  return since == INT64_MAX ? s.comm->moved_ns() : since;
}

}  // namespace

Places::Places(const WaitGraph& graph, const std::vector<Stall>& stalls, std::vector<bool> ends)
    : graph_(graph), nodes_(graph.nodes()), stalls_(stalls), ends_(std::move(ends)) {
  find();
  find_open_calls();
  if (!barriers_.empty()) find_calls_behind_barriers();
}

void Places::find() {
  best_.resize(nodes_.size());
  std::vector<Nanoseconds> since(stalls_.size(), -1);
  // Only where there is a choice, and not for whole clusters: it is a tie-break.
  constexpr int usual_max = 256;
  int usual_looked = 0;
  std::vector<int> wanted_at(nodes_.size());
  std::vector<CommUid> usual(nodes_.size());
  std::vector<bool> usual_known(nodes_.size());
  for (const WaitNode& site : nodes_)
    if (site.kind == Kind::operation || site.kind == Kind::calls)
      for (int a : site.out) ++wanted_at[a];
  for (const WaitNode& site : nodes_) {
    if (site.kind != Kind::operation && site.kind != Kind::calls) continue;
    const auto i = static_cast<size_t>(site.stall);
    const Stall& s = stalls_[i];
    for (int a : site.out) {
      const WaitNode& actor = nodes_[a];
      if (!ends_[a]) continue;
      if (!usual_known[a] && wanted_at[a] > 1 && usual_looked < usual_max) {
        ++usual_looked;
        usual_known[a] = true;
        if (actor.process) usual[a] = usual_next(actor.process->kernels, actor.device);
      }
      Place p{i, site.kind == Kind::calls, Place::no, usual[a] == s.comm->uid(), 0, graph_.rank_of(actor, site.stall)};
      if (p.calls) {
        const P2pWait* w = graph_.wait_for(site, actor);
        if (!w) continue;
        p.since_ns = w->since_ns;
        p.rank = w->peer;
        const P2pWait*& oldest = missed_[{a, i}];
        if (!oldest || w->since_ns < oldest->since_ns) oldest = w;
      } else {
        if (since[i] < 0) since[i] = waiting_since_ns(s);
        p.since_ns = since[i];
        if (p.rank.value < 0) continue;
        const Progress progress = s.view.ranks[p.rank.value].progress;
        p.inside = progress == Progress::begun || progress == Progress::called ? Place::yes
                   : progress == Progress::launched                            ? Place::launched
                                                                               : Place::no;
      }
      if (s.comm->is_barrier(s.view.signature) && !p.calls)
        if (const auto [it, added] = barriers_.try_emplace(a, Barrier{i, p.since_ns});
            !added && p.since_ns < it->second.since_ns)
          it->second = {i, p.since_ns};
      std::optional<Place>& best = best_[a];
      if (!best || p.better_than(*best)) best = p;
    }
  }
}

// An end that is inside a call which it does not launch, perhaps on a communicator where nobody waits for it yet.
void Places::find_open_calls() {
  for (size_t a = 0; a < nodes_.size(); ++a) {
    std::optional<Place>& best = best_[a];
    if (!best || best->inside == Place::yes || !nodes_[a].process) continue;
    for (const ProcessModel::Membership& m : nodes_[a].process->memberships) {
      const int i = graph_.index_of(m.comm);
      if (i < 0 || graph_.rank_of(nodes_[a], i) != m.rank) continue;
      const Stall& s = stalls_[i];
      const bool collective = s.located && !s.view.p2p && s.view.ranks[m.rank.value].progress == Progress::called;
      if (!collective && !open_call(*s.comm->rank(m.rank))) continue;
      best = Place{static_cast<size_t>(i), !collective, Place::yes, false, waiting_since_ns(s), m.rank};
      break;
    }
  }
}

void Places::find_calls_behind_barriers() {
  for (const WaitNode& site : nodes_) {
    if (site.kind != Kind::calls) continue;
    for (int a : site.out) {
      if (nodes_[a].kind != Kind::actor) continue;
      for (int n : nodes_[a].out) {
        if (nodes_[n].kind != Kind::operation) continue;
        const P2pWait* w = graph_.wait_for(site, nodes_[a]);
        if (!w) continue;
        const auto [it, added] = behind_.try_emplace(call_of(nodes_[n].stall, *w), site.stall);
        if (!added && it->second != site.stall) it->second = several;
      }
    }
  }
}

Places::Call Places::call_of(int barrier, const P2pWait& w) {
  return {barrier, w.pair_seq, w.replay, w.direction == abi::Direction::send};
}

// Somebody may have waited at the place before it was due: then those who wait in the barrier tell. If others miss the
// same call of them, it comes behind the barrier.
bool Places::behind_barrier(int actor) const {
  const std::optional<Place>& best = best_[actor];
  const auto barrier = barriers_.find(actor);
  if (!best || best->inside == Place::yes || barrier == barriers_.end()) return false;
  if (barrier->second.since_ns <= best->since_ns) return true;
  const auto missed = best->calls ? missed_.find({actor, best->stall}) : missed_.end();
  if (missed == missed_.end()) return false;
  const auto same = behind_.find(call_of(static_cast<int>(barrier->second.stall), *missed->second));
  return same != behind_.end() && same->second != static_cast<int>(best->stall);
}

CommUid usual_next(const KernelLog& log, int device) {
  const std::vector<CommUid> order = log.order(device);
  if (order.size() < 4) return {};
  const size_t last = order.size() - 1;
  size_t best = 0, best_length = 0;
  for (size_t end = last; end-- > 0;) {  // the newest of equals wins
    size_t length = 0;
    while (length <= end && order[end - length] == order[last - length]) ++length;
    if (length > best_length) best = end, best_length = length;
  }
  // A step or two alike mean nothing.
  return best_length >= 3 ? order[best + 1] : CommUid{};
}

}  // namespace ccld::decision
