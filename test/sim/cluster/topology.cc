#include "test/sim/cluster/topology.h"

namespace ccld::sim {

Topology::Topology(const Layout& layout, const CommSpec& comm, int channels) {
  int last_host = -1;
  for (int r = 0; r < comm.ranks(); ++r) {
    const int host = layout.host_of(comm.members[r]);
    if (host != last_host) nodes_.emplace_back();
    last_host = host;
    node_of_.push_back(static_cast<int>(nodes_.size()) - 1);
    local_of_.push_back(static_cast<int>(nodes_.back().size()));
    nodes_.back().push_back(r);
  }
  const int n = comm.ranks(), node_count = nodes();
  for (int c = 0; c < channels; ++c) {
    ChannelGraph g;
    g.ring_place.resize(n);
    g.tree.resize(n);
    const auto local = [&](int node, int i) {  // channels enter a node at different GPUs
      const auto& ranks = nodes_[node];
      return ranks[(i + c) % ranks.size()];
    };
    for (int node = 0; node < node_count; ++node)
      for (size_t i = 0; i < nodes_[node].size(); ++i) g.ring.push_back(local(node, static_cast<int>(i)));
    for (int i = 0; i < n; ++i) g.ring_place[g.ring[i]] = i;
    const auto head = [&](int position) { return local((position + c % 2) % node_count, 0); };
    const auto join = [&](int parent, int child) {
      g.tree[parent].down.push_back(child);
      g.tree[child].up = parent;
      g.tree[child].depth = g.tree[parent].depth + 1;
    };
    for (int position = 0; position < node_count; ++position) {
      if (position > 0) join(head((position - 1) / 2), head(position));
      g.top_down.push_back(head(position));
    }
    for (int position = 0; position < node_count; ++position) {
      const int node = (position + c % 2) % node_count;
      for (size_t i = 1; i < nodes_[node].size(); ++i) {
        join(local(node, static_cast<int>(i) - 1), local(node, static_cast<int>(i)));
        g.top_down.push_back(local(node, static_cast<int>(i)));
      }
    }
    graphs_.push_back(std::move(g));
  }
}

}  // namespace ccld::sim
