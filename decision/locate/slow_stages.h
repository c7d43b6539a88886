// Which stages of which connections made a window slow: where steps queued, and which of the queues is a cause.
// (Paper, section 4.2.2: S2; in place of the least SendRate and RecvRate.)
//
// Contract: pure. Steps queue in front of the slow stage. A stage counts only steps that were ready on one side AND
// awaited on the other. A slow receiving GPU therefore adds no network delay: it has posted no receive. A slow network
// stage does make queues in front of the GPUs that depend on it. So where the network explains the loss, GPUs are not
// named.
#pragma once

#include <vector>

#include "decision/measure/slow_window.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

struct SlowStage {
  Edge edge;
  Stage stage = Stage::wire;
  double waiting_steps = 0;  // on average during the lost time, beyond the healthy ones
  double network_steps = 0;  // of the connection, in all stages between the two GPUs' hosts
  double step_ns = 0;        // what a step waits in it
  bool sure = true;          // false: late starts may explain it
  uint64_t channels = 0;     // of the two ranks, in which steps wait; a bit for each
  int channels_known = 1;    // of the two ranks
};

inline bool in_sender(Stage s) { return s == Stage::sender_proxy || s == Stage::sender_nic; }
inline bool in_receiving_gpu(Stage s) { return s == Stage::receiver_gpu || s == Stage::gpu_to_gpu; }

// Of each connection the last stage that grew, the longest queue first. `network_only`: late ranks keep their
// neighbours' steps waiting for GPUs, so only proxies and wires are evidence.
std::vector<SlowStage> grown_stages(const SlowWindow&, bool network_only);

// Of those the causes, the longest queue first. The channels in which steps wait for one GPU count together. What late
// starts may explain counts only where nothing else does.
std::vector<SlowStage> slow_stages(const Communicator&, const std::vector<SlowStage>& grown);

}  // namespace ccld::decision
