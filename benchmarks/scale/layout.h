// Which rank of a simulated training job is where, and in which communicators: one of all ranks, tensor parallel groups
// within a node, and data parallel groups across nodes.
//
// Contract: pure arithmetic; ranks are numbered tensor first, then data, then pipeline. Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/frames/comm.h"
#include "probe/probe.h"

namespace ccld::bench {

enum class Group { world, tensor, data };
constexpr Group groups[] = {Group::world, Group::tensor, Group::data};
constexpr int gpus_per_node = 8;

class Layout {
 public:
  // `ranks`: a multiple of ranks_step.
  static constexpr int ranks_step = 64;
  explicit Layout(int ranks);

  int ranks() const { return ranks_; }
  int size_of(Group) const;
  int64_t communicators() const;
  int64_t memberships() const { return int64_t{ranks_} * static_cast<int64_t>(std::size(groups)); }
  int channels_of(Group) const;

  uint64_t uid_of(Group, int rank) const;  // of the communicator that the rank is in
  int member_of(Group, int rank) const;    // its rank there
  int node_of(Group, int member) const;    // counted within the communicator

  probe::ChannelTopology neighbours(Group, int member, int channel) const;
  std::vector<probe::ChannelTopology> topology(Group, int member) const;
  std::vector<probe::NetConnection> connections(Group, int member) const;

 private:
  int per_node(Group group) const { return group == Group::data ? 1 : gpus_per_node; }
  int ranks_, pipeline_, data_;
};

}  // namespace ccld::bench
