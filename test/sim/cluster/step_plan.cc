#include "test/sim/cluster/step_plan.h"

#include <algorithm>

namespace ccld::sim {
namespace {

// As NCCL numbers them.
constexpr int nvls_scatter = 0, nvls_gather = 2, nvls_reduce = 4;

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
  // By the switch: the head's group has one endpoint for all ranks, theirs have one for each head.
  void connect_by_switch(int from, int to, int head) {
    connect(from, to, false);
    Connection& c = plan_.connections.back();
    c.head = head;
    const bool from_head = plan_.groups[from].number == nvls_reduce;
    c.sender_index = from_head ? 0 : head;
    c.receiver_index = from_head ? head : 0;
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

int StepPlan::endpoints(const std::vector<int>& of_group, bool sends) const {
  if (of_group.empty()) return 0;
  const Connection &first = connections[of_group.front()], &last = connections[of_group.back()];
  const bool same = first.head >= 0 && (sends ? first.sender_index == last.sender_index : first.receiver_index == last.receiver_index);
  return same ? 1 : static_cast<int>(of_group.size());
}

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

StepPlan nvls_plan(const Topology& t, int ranks, int steps) {
  Builder b(&t, ranks, t.channels(), steps);
  for (int c = 0; c < t.channels(); ++c) {
    std::vector<int> scatter(ranks), reduce(ranks), gather(ranks);
    for (int r = 0; r < ranks; ++r) scatter[r] = b.group(r, c, nvls_scatter);
    for (int r = 0; r < ranks; ++r) reduce[r] = b.group(r, c, nvls_reduce);
    for (int r = 0; r < ranks; ++r) gather[r] = b.group(r, c, nvls_gather);
    for (int head = 0; head < ranks; ++head)
      for (int r = 0; r < ranks; ++r) {
        b.connect_by_switch(scatter[r], reduce[head], head);
        b.connect_by_switch(reduce[head], gather[r], head);
      }
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
