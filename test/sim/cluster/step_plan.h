// What the thread groups of one operation do, before anything happens: connections, and groups that in each iteration
// take a step from every connection they receive on and put one on every connection they send on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decision/model/events.h"
#include "test/sim/cluster/topology.h"

namespace ccld::sim {

constexpr int slots_in_steps = 8;  // NCCL_STEPS: buffer slots of a connection

struct Connection {
  int sender = 0, receiver = 0;              // ranks
  int sender_group = -1, receiver_group = -1;  // indices of StepPlan::groups
  int sender_index = 0, receiver_index = 0;    // peer index within its group
  int head = -1;  // of NVLS: both ends see the switch, in the part of the data that this rank reduces
  int channel = 0;
  bool network = false;
};

struct Group {
  int rank = 0, channel = 0, number = 0;
  std::vector<int> receives, sends;  // indices of StepPlan::connections
  int lag = 0;  // iterations before the first receive (a ring's first send)
};

struct StepPlan {
  int steps = 0;  // that each connection carries
  std::vector<Connection> connections;
  std::vector<Group> groups;           // a group comes after those from whose same iteration it receives
  std::vector<std::vector<int>> by_rank;  // groups
  int channels = 0;
  int slots = slots_in_steps;  // in steps of this plan: a group that moves two of NCCL's steps at a time has half as many

  int iterations(const Group& g) const { return steps + g.lag; }
  // How many endpoints a group has for its connections: a head has one for all that reach it by the switch.
  int endpoints(const std::vector<int>& of_group, bool sends) const;
};

// A ring's AllReduce, AllGather or ReduceScatter; `steps` is raised to what the ring needs to go round.
StepPlan ring_plan(const Topology&, int ranks, int steps);
StepPlan tree_plan(const Topology&, int ranks, int steps);
// Within a node: every rank gives each head its part, each head adds it up and gives the sum to every rank, all by the switch.
StepPlan nvls_plan(const Topology&, int ranks, int steps);
// From the root down the ring.
StepPlan broadcast_plan(const Topology&, int ranks, int root, int steps);
StepPlan all_to_all_plan(const Topology&, int ranks, int steps);
// One Send with its Recv: rank 0 of the plan sends to rank 1.
StepPlan pair_plan(bool network, int steps);

}  // namespace ccld::sim
