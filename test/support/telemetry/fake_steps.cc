#include "test/support/telemetry/fake_steps.h"

#include <algorithm>

namespace ccld::fake {
namespace {

constexpr uint32_t slots = 8;

// As NCCL has them, in NVLS.
constexpr int scatter_group = 0, gather_group = 2, reduce_group = 4;

// One thread group: in every iteration it takes a step from each lane of `receive` and puts one on each lane of `send`.
struct Group {
  int rank, number;
  std::vector<size_t> receive, send;  // indices of the channel's lanes
  int iterations;
  int first_receive = 0;  // iterations before this one receive nothing (a ring's first send)
  int last_send;          // iterations from this one on send nothing (a ring's last receive)
  int done = 0;
};

}  // namespace

std::vector<int> Topology::children(int rank) const {
  std::vector<int> c;
  for (int child = 2 * rank + 1; child <= 2 * rank + 2; ++child)
    if (child < ranks) c.push_back(child);
  return c;
}

uint32_t arrived(const Breakage& b, int sender, int receiver, uint32_t posted) {
  return b.cut.contains({sender, receiver}) ? std::min<uint32_t>(posted, b.cut_after) : posted;
}

std::vector<FakeChannel> run_steps(const Topology& t, const Breakage& b, int loops) {
  std::vector<FakeChannel> channels(t.ranks);
  std::vector<Group> groups;
  const auto lane = [&](int rank, int group, abi::Direction direction, int index, int peer) {
    FakeLane l;
    l.group = group;
    l.peer_index = index;
    l.peer = peer;
    l.direction = direction;
    channels[rank].lanes.push_back(l);
    return channels[rank].lanes.size() - 1;
  };
  for (int r = 0; r < t.ranks; ++r) {
    if (b.absent.contains(r)) continue;
    channels[r].begun = true;
    if (t.nvls) {
      Group scatter{r, scatter_group, {}, {}, loops, 0, loops}, gather{r, gather_group, {}, {}, loops, 0, loops};
      Group reduce{r, reduce_group, {}, {}, loops, 0, loops};
      for (int head = 0; head < t.ranks; ++head) {
        const int index = head % static_cast<int>(abi::lane_peers);
        scatter.send.push_back(lane(r, scatter_group, abi::Direction::send, index, t.nvlink_switch(head)));
        gather.receive.push_back(lane(r, gather_group, abi::Direction::recv, index, t.nvlink_switch(head)));
      }
      reduce.receive.push_back(lane(r, reduce_group, abi::Direction::recv, 0, t.nvlink_switch(r)));
      reduce.send.push_back(lane(r, reduce_group, abi::Direction::send, 0, t.nvlink_switch(r)));
      groups.insert(groups.end(), {scatter, gather, reduce});
      continue;
    }
    if (t.collnet) {
      Group up{r, 0, {}, {}, loops, 0, loops}, down{r, 1, {}, {}, loops, 0, loops};
      up.send.push_back(lane(r, 0, abi::Direction::send, 0, t.collective_network()));
      down.receive.push_back(lane(r, 1, abi::Direction::recv, 0, t.collective_network()));
      groups.insert(groups.end(), {up, down});
      continue;
    }
    if (!t.tree) {
      Group g{r, 0, {}, {}, loops + 1, 1, loops};
      g.receive.push_back(lane(r, 0, abi::Direction::recv, 0, (r + t.ranks - 1) % t.ranks));
      g.send.push_back(lane(r, 0, abi::Direction::send, 0, (r + 1) % t.ranks));
      groups.push_back(g);
      continue;
    }
    const std::vector<int> children = t.children(r);
    Group up{r, 0, {}, {}, loops, 0, loops};
    for (size_t i = 0; i < children.size(); ++i)
      up.receive.push_back(lane(r, 0, abi::Direction::recv, int(i), children[i]));
    if (t.parent(r) < 0) {
      for (size_t i = 0; i < children.size(); ++i)
        up.send.push_back(lane(r, 0, abi::Direction::send, int(i), children[i]));
      groups.push_back(up);
      continue;
    }
    up.send.push_back(lane(r, 0, abi::Direction::send, 0, t.parent(r)));
    groups.push_back(up);
    Group down{r, 1, {}, {}, loops, 0, loops};
    down.receive.push_back(lane(r, 1, abi::Direction::recv, 0, t.parent(r)));
    for (size_t i = 0; i < children.size(); ++i)
      down.send.push_back(lane(r, 1, abi::Direction::send, int(i), children[i]));
    groups.push_back(down);
  }
  const auto steps_of = [&](int rank, int group, const FakeLane& other) {
    for (const FakeLane& l : channels[rank].lanes)
      if (l.group == group && l.peer == other.peer && l.direction != other.direction) return l.steps;
    return uint32_t{0};
  };
  // What the other end of a lane has posted or consumed.
  const auto given = [&](int rank, const FakeLane& l) -> uint32_t {
    if (!t.nvls && !t.collnet) {
      for (const FakeLane& o : channels[l.peer].lanes)
        if (o.peer == rank && o.direction != l.direction) return o.steps;
      return 0;
    }
    if (t.collnet) {
      // The network takes, and gives, what all have given.
      uint32_t least = UINT32_MAX;
      for (const FakeChannel& c : channels)
        for (const FakeLane& o : c.lanes)
          if (o.direction == abi::Direction::send) least = std::min(least, o.steps);
      return least;
    }
    if (l.group != reduce_group) return steps_of(l.peer - t.nvlink_switch(0), reduce_group, l);
    // The switch gives what all have given.
    uint32_t least = UINT32_MAX;
    for (int r = 0; r < t.ranks; ++r)
      least = std::min(least, steps_of(r, l.direction == abi::Direction::recv ? scatter_group : gather_group, l));
    return least;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (Group& g : groups) {
      FakeChannel& ch = channels[g.rank];
      for (FakeLane& l : ch.lanes)
        if (l.group == g.number) l.wait = abi::WaitKind::none;
      if (g.done == g.iterations) continue;
      if (auto stop = b.stop_after.find(g.rank); stop != b.stop_after.end() && g.done >= stop->second) {
        ch.frozen = true;
        continue;
      }
      bool can = true;
      if (g.done >= g.first_receive)
        for (size_t i : g.receive) {
          FakeLane& l = ch.lanes[i];
          if (arrived(b, l.peer, g.rank, given(g.rank, l)) > l.steps) continue;
          can = false;
          l.wait = abi::WaitKind::data;
          l.want = l.steps + 1;
        }
      if (can && g.done < g.last_send)
        for (size_t i : g.send) {
          FakeLane& l = ch.lanes[i];
          if (l.steps < slots + given(g.rank, l)) continue;
          can = false;
          l.wait = abi::WaitKind::credit;
          l.want = l.steps + 1;
        }
      if (!can) continue;
      if (g.done >= g.first_receive)
        for (size_t i : g.receive) ++ch.lanes[i].steps;
      if (g.done < g.last_send)
        for (size_t i : g.send) ++ch.lanes[i].steps;
      ++g.done;
      moved = true;
    }
  }
  std::vector<bool> ended(t.ranks, true);
  for (const Group& g : groups)
    if (g.done < g.iterations) ended[g.rank] = false;
  for (int r = 0; r < t.ranks; ++r) channels[r].ended = channels[r].begun && ended[r];
  return channels;
}

}  // namespace ccld::fake
