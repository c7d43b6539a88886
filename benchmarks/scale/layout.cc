#include "benchmarks/scale/layout.h"

#include <algorithm>
#include <string>

namespace ccld::bench {
namespace {

constexpr int tensor_size = gpus_per_node;
constexpr uint64_t uid_stride = 1u << 24;  // more than any job has groups

}  // namespace

Layout::Layout(int ranks)
    : ranks_(ranks), pipeline_(std::min(8, ranks / ranks_step)), data_(ranks / tensor_size / pipeline_) {}

int Layout::size_of(Group group) const {
  return group == Group::world ? ranks_ : group == Group::tensor ? tensor_size : data_;
}

int64_t Layout::communicators() const {
  return 1 + ranks_ / tensor_size + ranks_ / data_;
}

// One GPU of a node opens fewer channels than eight.
int Layout::channels_of(Group group) const { return group == Group::data ? 8 : 32; }

uint64_t Layout::uid_of(Group group, int rank) const {
  switch (group) {
    case Group::world: return uid_stride;
    case Group::tensor: return 2 * uid_stride + static_cast<uint64_t>(rank / tensor_size);
    case Group::data: break;
  }
  const int tensor = rank % tensor_size, stage = rank / (tensor_size * data_);
  return 3 * uid_stride + static_cast<uint64_t>(stage * tensor_size + tensor);
}

int Layout::member_of(Group group, int rank) const {
  switch (group) {
    case Group::world: return rank;
    case Group::tensor: return rank % tensor_size;
    case Group::data: break;
  }
  return rank / tensor_size % data_;
}

int Layout::node_of(Group group, int member) const { return member / per_node(group); }

// A ring goes through the GPUs of a node, beginning with another one on each channel, and on to the next node. A tree
// is a chain within a node and binary across nodes.
probe::ChannelTopology Layout::neighbours(Group group, int member, int channel) const {
  const int local = per_node(group), nodes = size_of(group) / local, node = member / local;
  const int first = channel % local, place = (member % local - first + local) % local;
  const auto at = [&](int at_node, int at_place) { return at_node * local + (first + at_place) % local; };
  probe::ChannelTopology t{};
  t.channel = channel;
  t.ring_next = place + 1 < local ? at(node, place + 1) : at((node + 1) % nodes, 0);
  t.ring_prev = place > 0 ? at(node, place - 1) : at((node + nodes - 1) % nodes, local - 1);
  t.tree_up = place > 0 ? at(node, place - 1) : node > 0 ? at((node - 1) / 2, 0) : -1;
  std::fill(std::begin(t.tree_down), std::end(t.tree_down), -1);
  int down = 0;
  if (place + 1 < local) t.tree_down[down++] = at(node, place + 1);
  for (int child = 2 * node + 1; place == 0 && child <= 2 * node + 2; ++child)
    if (child < nodes) t.tree_down[down++] = at(child, 0);
  int depth = 0;
  for (int n = node; n > 0; n = (n - 1) / 2) ++depth;
  t.tree_depth = depth + place;
  return t;
}

std::vector<probe::ChannelTopology> Layout::topology(Group group, int member) const {
  std::vector<probe::ChannelTopology> all;
  for (int c = 0; c < channels_of(group); ++c) all.push_back(neighbours(group, member, c));
  return all;
}

// Of rings, and on the communicator of all ranks of trees too: its small operations use them.
std::vector<probe::NetConnection> Layout::connections(Group group, int member) const {
  std::vector<probe::NetConnection> all;
  for (int c = 0; c < channels_of(group); ++c) {
    const auto add = [&](abi::Direction direction, int peer) {
      if (peer < 0 || node_of(group, peer) == node_of(group, member)) return;
      const int device = group == Group::world ? member % gpus_per_node : c % 2;  // that of the GPU, or both
      all.push_back({direction, c, peer, device, "mlx5_" + std::to_string(device)});
    };
    const probe::ChannelTopology t = neighbours(group, member, c);
    add(abi::Direction::recv, t.ring_prev);
    add(abi::Direction::send, t.ring_next);
    if (group != Group::world) continue;
    for (abi::Direction d : {abi::Direction::recv, abi::Direction::send}) {
      add(d, t.tree_up);
      for (int child : t.tree_down) add(d, child);
    }
  }
  return all;
}

}  // namespace ccld::bench
