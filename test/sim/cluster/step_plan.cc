#include "test/sim/cluster/step_plan.h"

#include <algorithm>

namespace ccld::sim {
namespace {

class Builder {
 public:
  Builder(const Topology* topology, int ranks, int channels, int steps) : topology_(topology) {
    plan_.steps = steps;
    plan_.channels = channels;
    plan_.by_rank.resize(ranks);
  }
  int group(int rank, int channel, int number, int lag = 0) {
    Group g;
    g.rank = rank;
    g.channel = channel;
    g.number = number;
    g.lag = lag;
    plan_.groups.push_back(g);
    const int index = static_cast<int>(plan_.groups.size()) - 1;
    plan_.by_rank[rank].push_back(index);
    return index;
  }
  void connect(int from, int to, bool network) {
    Group &s = plan_.groups[from], &r = plan_.groups[to];
    Connection c;
    c.sender = s.rank;
    c.receiver = r.rank;
    c.sender_group = from;
    c.receiver_group = to;
    c.sender_index = static_cast<int>(s.sends.size());
    c.receiver_index = static_cast<int>(r.receives.size());
    c.channel = s.channel;
    c.network = network;
    const int index = static_cast<int>(plan_.connections.size());
    s.sends.push_back(index);
    r.receives.push_back(index);
    plan_.connections.push_back(c);
  }
  void connect(int from, int to) {
    connect(from, to, topology_->over_network(plan_.groups[from].rank, plan_.groups[to].rank));
  }
  StepPlan take() { return std::move(plan_); }

 private:
  const Topology* topology_;
  StepPlan plan_;
};

}  // namespace

StepPlan ring_plan(const Topology& t, int ranks, int steps) {
  const int round = 2 * (ranks - 1);
  Builder b(&t, ranks, t.channels(), round * std::max(1, (steps + round - 1) / round));
  for (int c = 0; c < t.channels(); ++c) {
    std::vector<int> group(ranks);
    for (int r = 0; r < ranks; ++r) group[r] = b.group(r, c, 0, 1);
    for (int r = 0; r < ranks; ++r) b.connect(group[r], group[t.graph(c).next(r)]);
  }
  return b.take();
}

StepPlan tree_plan(const Topology& t, int ranks, int steps) {
  Builder b(&t, ranks, t.channels(), steps);
  for (int c = 0; c < t.channels(); ++c) {
    const ChannelGraph& g = t.graph(c);
    std::vector<int> up(ranks), down(ranks);
    for (auto r = g.top_down.rbegin(); r != g.top_down.rend(); ++r) up[*r] = b.group(*r, c, 0);
    for (int r : g.top_down) down[r] = g.tree[r].up < 0 ? up[r] : b.group(r, c, 1);
    for (int r : g.top_down)
      for (int child : g.tree[r].down) b.connect(up[child], up[r]);
    for (int r : g.top_down)
      for (int child : g.tree[r].down) b.connect(down[r], down[child]);
  }
  return b.take();
}

StepPlan broadcast_plan(const Topology& t, int ranks, int root, int steps) {
  Builder b(&t, ranks, t.channels(), steps);
  for (int c = 0; c < t.channels(); ++c) {
    int before = -1;
    for (int i = 0, r = root; i < ranks; ++i, r = t.graph(c).next(r)) {
      const int g = b.group(r, c, 0);
      if (before >= 0) b.connect(before, g);
      before = g;
    }
  }
  return b.take();
}

StepPlan all_to_all_plan(const Topology& t, int ranks, int steps) {
  Builder b(&t, ranks, t.channels(), steps);
  for (int d = 1; d < ranks; ++d) {
    const int c = (d - 1) % t.channels(), number = (d - 1) / t.channels() * 2;
    std::vector<int> sends(ranks);
    for (int r = 0; r < ranks; ++r) sends[r] = b.group(r, c, number);
    for (int r = 0; r < ranks; ++r) b.connect(sends[(r + ranks - d) % ranks], b.group(r, c, number + 1));
  }
  return b.take();
}

StepPlan pair_plan(bool network, int steps) {
  Builder b(nullptr, 2, 1, steps);
  const int from = b.group(0, 0, 0);
  b.connect(from, b.group(1, 0, 0), network);
  return b.take();
}

}  // namespace ccld::sim
