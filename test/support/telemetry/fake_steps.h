// How far the steps of one ring, tree, NVLS or CollNet operation get when something is broken: every thread group does
// what it can until nothing moves any more. Deterministic; the result is what lanes and proxies of a hung operation
// look like.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "schemas/abi/frame.h"

namespace ccld::fake {

struct Topology {
  int ranks = 8;
  int ranks_per_node = 4;
  bool tree = false;
  bool nvls = false;     // all ranks on one node, each a head
  bool collnet = false;  // each rank a head, alone or with others that do the same
  int node(int rank) const { return rank / ranks_per_node; }
  int parent(int rank) const { return rank == 0 ? -1 : (rank - 1) / 2; }
  std::vector<int> children(int rank) const;
  // The peer of NVLS endpoints that belong to the part of the data which this rank reduces, as NCCL numbers them.
  int nvlink_switch(int head) const { return ranks + 1 + head; }
  // That of CollNet endpoints.
  int collective_network() const { return ranks; }
  int depth(int rank) const { return rank == 0 ? 0 : depth(parent(rank)) + 1; }
};

struct Breakage {
  std::set<int> absent;               // ranks whose kernel does not run
  std::map<int, int> stop_after;      // rank -> loop iterations after which its kernel stands still
  std::set<std::pair<int, int>> cut;  // (sender, receiver): nothing arrives after `cut_after` steps
  int cut_after = 3;
};

struct FakeLane {
  int group = 0, peer_index = 0, peer = -1;
  abi::Direction direction = abi::Direction::recv;
  uint32_t steps = 0;  // since the operation began
  abi::WaitKind wait = abi::WaitKind::none;
  uint32_t want = 0;
};

struct FakeChannel {
  bool begun = false, ended = false, frozen = false;
  std::vector<FakeLane> lanes;
};

// By rank; one channel. `loops`: steps that each edge carries.
std::vector<FakeChannel> run_steps(const Topology&, const Breakage&, int loops);

// Steps that arrive at the receiver of an edge of which the sender posted so many.
uint32_t arrived(const Breakage&, int sender, int receiver, uint32_t posted);

}  // namespace ccld::fake
