// Which connection, proxy or GPU makes the collectives of a communicator slow.
// (Paper, section 4.2.2, S2, which goes by the least rate: behind one bottleneck all rates are equal.)
//
// In front of a bottleneck steps queue up, and behind it connections run empty. So a connection whose steps take
// several times as long as those of the other connections now, or as its own did before, beyond what chance explains,
// is slow. In which part of their way they take longer says whether it is a proxy, a device or a wire. No more steps
// than NCCL has slots are under way at a time: that tells what an operation loses by it. What waits for the receiver's
// GPU fills everything behind it: such a connection is blocked by what is slow further on. Ranks that come late make
// others wait, but hold up a transfer once only: no proxy is blamed before the last rank has begun, and a wire or a
// device only for steps whose receives were posted. A proxy that was seen not to poll is the cause itself, unless most
// proxies are like that: then the machine is busy.
//
// connection_steps.h has what a step takes and takes otherwise; slow_network.h and slow_gpu.h say who is slow.
//
// A connection that has become slow while operations take as long as before only seems slow, and a GPU is not named
// while nothing is known of some rank, which may be late.
//
// Contract: linear in the reported stages of links.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "decision/whatif/collective_rounds.h"
#include "decision/whatif/slow_collectives.h"
#include "decision/whatif/step_past.h"

namespace ccld::decision::whatif {

// Who comes late to the operations: nobody, only ranks with a late host, or also ranks with a late GPU.
struct Late {
  enum Who { nobody, hosts, gpus } who = nobody;
  // Of late GPUs: their own work takes so many times as long as it should, and so do operations because of them at
  // most.
  double gpu_times = INFINITY;
  double sampled_every_ns = 0;  // stages of links, by the ranks' probes at most; 0: not known
};

// `turn_wait_ns`: what threads of all hosts wait whenever they want a processor. Where nothing stands out the past
// learns from the operations, and it is nullopt.
std::optional<SlowCollectives> slow_collectives(const Communicator&, const std::vector<CollectiveRound>&, const Late&,
                                                double turn_wait_ns, StepPast&, const Settings&);

}  // namespace ccld::decision::whatif
