// Rings and trees of one communicator, a pair for each channel: rings visit all ranks of a node before the next node;
// trees join nodes by a binary tree (odd channels: shifted by one node, as the second of two complementary trees) and
// the ranks of a node by a chain.
#pragma once

#include <vector>

#include "test/sim/cluster/layout.h"

namespace ccld::sim {

struct TreePlace {
  int up = -1;
  std::vector<int> down;
  int depth = 0;
};

struct ChannelGraph {
  std::vector<int> ring;        // ranks in the order of the ring
  std::vector<int> ring_place;  // rank -> index in `ring`
  std::vector<TreePlace> tree;  // by rank
  std::vector<int> top_down;    // ranks, parents before children

  int next(int rank) const { return ring[(ring_place[rank] + 1) % ring.size()]; }
  int prev(int rank) const { return ring[(ring_place[rank] + ring.size() - 1) % ring.size()]; }
};

class Topology {
 public:
  Topology(const Layout&, const CommSpec&, int channels);
  int channels() const { return static_cast<int>(graphs_.size()); }
  int nodes() const { return static_cast<int>(nodes_.size()); }
  int node_of(int rank) const { return node_of_[rank]; }
  int local_of(int rank) const { return local_of_[rank]; }
  bool over_network(int a, int b) const { return node_of_[a] != node_of_[b]; }
  const ChannelGraph& graph(int channel) const { return graphs_[channel]; }

 private:
  std::vector<std::vector<int>> nodes_;  // ranks of each
  std::vector<int> node_of_, local_of_;
  std::vector<ChannelGraph> graphs_;
};

}  // namespace ccld::sim
