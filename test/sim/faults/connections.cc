#include "test/sim/faults/connections.h"

#include <algorithm>
#include <set>

namespace ccld::sim {
namespace {

void make_unique(std::vector<Edge>* edges) {
  std::sort(edges->begin(), edges->end());
  edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
}

}  // namespace

std::vector<Edge> rank_edges(const Topology& t, const ChannelGraph& g, Way way, int ranks) {
  std::vector<Edge> edges;
  for (int r = 0; r < ranks; ++r) {
    const auto add = [&](int a, int b) {
      if (a >= 0 && b >= 0 && t.over_network(a, b)) edges.emplace_back(a, b);
    };
    if (way == Way::tree) {
      add(r, g.tree[r].up);
      add(g.tree[r].up, r);
    } else if (way == Way::ring || (way == Way::broadcast && g.next(r) != 0)) {
      add(r, g.next(r));
    }
  }
  return edges;
}

std::vector<Edge> network_edges(const Layout& layout, CommKind kind, int channels) {
  std::vector<Edge> edges;
  for (const CommSpec& spec : layout.comms()) {
    if (spec.kind != kind) continue;
    const Topology t(layout, spec, channels);
    if (t.nodes() < 2) continue;
    const auto add = [&](const std::vector<Edge>& ranks) {
      for (const auto& [a, b] : ranks) edges.emplace_back(spec.members[a], spec.members[b]);
    };
    for (int c = 0; c < t.channels(); ++c) {
      if (kind != CommKind::expert) {
        add(rank_edges(t, t.graph(c), Way::ring, spec.ranks()));
        add(rank_edges(t, t.graph(c), Way::tree, spec.ranks()));
        continue;
      }
      for (int a = 0; a < spec.ranks(); ++a)  // everybody sends to everybody
        for (int b = 0; b < spec.ranks(); ++b)
          if (a != b && t.over_network(a, b)) edges.emplace_back(spec.members[a], spec.members[b]);
    }
  }
  make_unique(&edges);
  return edges;
}

std::vector<Edge> network_transfers(const Layout& layout) {
  std::vector<Edge> edges;
  for (const CommSpec& spec : layout.comms()) {
    if (spec.kind != CommKind::pipeline) continue;
    for (int r = 0; r + 1 < spec.ranks(); ++r) {
      const int a = spec.members[r], b = spec.members[r + 1];
      if (layout.same_host(a, b)) continue;
      edges.emplace_back(a, b);
      edges.emplace_back(b, a);
    }
  }
  make_unique(&edges);
  return edges;
}

PipelineNetwork::PipelineNetwork(const Layout& layout, int channels)
    : layout_(layout), transfers_(network_transfers(layout)) {
  if (transfers_.empty()) return;
  world_ = network_edges(layout, CommKind::world, channels);
  std::set<Edge> hosts, pairs(world_.begin(), world_.end());
  std::set<int> busy;
  const auto note = [&](const std::vector<Edge>& edges, bool few_bytes) {
    for (const auto& [a, b] : edges) {
      if (!few_bytes) hosts.emplace(layout.host_of(a), layout.host_of(b));
      pairs.emplace(a, b);
      busy.insert({a, b});
    }
  };
  note(world_, true);
  for (CommKind kind : {CommKind::tensor, CommKind::data, CommKind::expert})
    note(network_edges(layout, kind, channels), false);
  for (const Edge& e : transfers_) {
    if (!pairs.contains(e)) links_.push_back(e);
    if (!hosts.contains({layout.host_of(e.first), layout.host_of(e.second)})) between_hosts_.push_back(e);
    if (!busy.contains(e.first) && (senders_.empty() || senders_.back() != e.first)) senders_.push_back(e.first);
  }
}

std::vector<Edge> PipelineNetwork::beside(Edge e) const {
  std::vector<Edge> edges;
  for (const auto* from : {&transfers_, &world_})
    for (const Edge& other : *from)
      if (layout_.same_host(other.first, e.first) && layout_.same_host(other.second, e.second)) edges.push_back(other);
  make_unique(&edges);
  return edges;
}

}  // namespace ccld::sim
