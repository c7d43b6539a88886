#include "decision/locate/wait_chain.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ccld::decision {
namespace {

WaitFor kind_of(const LaneState& l, const Communicator& comm) {
  if (is_nvlink_switch(comm, l.peer)) return WaitFor::all_of_node;
  if (is_collective_network(comm, l.peer)) return WaitFor::all_nodes;
  return l.wait == abi::WaitKind::data ? WaitFor::step : WaitFor::slot;
}

Wait wait_of(const Communicator& comm, const WalkResult::Edge& edge, Nanoseconds now_ns) {
  Wait w{.rank = Rank{edge.rank}, .waits_for = Rank{edge.waits_for}, .what = WaitFor::step, .channel = edge.channel};
  const RankModel* r = comm.rank(w.rank);
  if (!r) return w;
  for (const LaneState& l : r->lanes_of(edge.channel)) {
    if (l.wait == abi::WaitKind::none) continue;
    const WaitFor what = kind_of(l, comm);
    const bool direct = what == WaitFor::step || what == WaitFor::slot;
    if (direct && l.peer != edge.waits_for) continue;
    w.what = what;
    w.age_ns = static_cast<Nanoseconds>(l.wait_age_ms) * ns_per_ms + std::max<Nanoseconds>(0, now_ns - r->sampled_ns);
    if (!direct) break;
    w.wanted = l.want_step;
    const RankModel* peer = comm.rank(w.waits_for);
    if (!peer) break;
    for (const LaneState& theirs : peer->lanes_of(edge.channel))
      if (theirs.peer == edge.rank && theirs.direction != l.direction && (!w.posted || theirs.current_step > *w.posted))
        w.posted = theirs.current_step;
    break;
  }
  return w;
}

}  // namespace

namespace {

// Waits by whom they are for: a large job has hundreds of thousands, and few of them are told.
class WaitersOf {
 public:
  WaitersOf(const std::vector<WalkResult::Edge>& edges, size_t ranks) : edges_(edges), begin_(ranks + 2), order_(edges.size()) {
    for (const WalkResult::Edge& e : edges) ++begin_[static_cast<size_t>(e.waits_for) + 2];
    for (size_t r = 2; r < begin_.size(); ++r) begin_[r] += begin_[r - 1];
    for (uint32_t i = 0; i < edges.size(); ++i) order_[begin_[static_cast<size_t>(edges[i].waits_for) + 1]++] = i;
  }
  // By rank, then channel.
  std::vector<WalkResult::Edge> of(int32_t rank) const {
    std::vector<WalkResult::Edge> waiters;
    for (uint32_t at = begin_[static_cast<size_t>(rank)]; at < begin_[static_cast<size_t>(rank) + 1]; ++at)
      waiters.push_back(edges_[order_[at]]);
    std::sort(waiters.begin(), waiters.end(),
              [](const auto& a, const auto& b) { return std::tie(a.rank, a.channel) < std::tie(b.rank, b.channel); });
    return waiters;
  }

 private:
  const std::vector<WalkResult::Edge>& edges_;
  std::vector<uint32_t> begin_, order_;
};

}  // namespace

std::vector<Wait> waits_towards(const Communicator& comm, const Finding& f, const WalkResult& result,
                                Nanoseconds now_ns) {
  const WaitersOf waiters(result.edges, comm.ranks().size());
  std::vector<bool> seen(comm.ranks().size());
  std::vector<int32_t> next;
  const auto reach = [&](Rank r) {
    if (r.value < 0 || static_cast<size_t>(r.value) >= seen.size() || seen[r.value]) return;
    seen[r.value] = true;
    next.push_back(r.value);
  };
  for (const Culprit& c : f.culprits) {
    reach(c.rank);
    if (c.peer) reach(*c.peer);  // of a link both ends stand
  }
  if (f.culprits.empty())
    for (const Rank r : f.candidates) reach(r);
  std::vector<Wait> out;
  for (size_t at = 0; at < next.size() && out.size() < waits_max; ++at) {
    int32_t before = -1;
    for (const WalkResult::Edge& edge : waiters.of(next[at])) {
      if (out.size() == waits_max) break;
      if (edge.rank == std::exchange(before, edge.rank)) continue;
      out.push_back(wait_of(comm, edge, now_ns));
      reach(Rank{edge.rank});
    }
  }
  return out;
}

}  // namespace ccld::decision
