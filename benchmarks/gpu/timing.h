// Time of operations by CUDA events on rank 0's stream.
#pragma once

#include <vector>

#include "benchmarks/gpu/ranks.h"

namespace ccld::gpu {

enum class Launch {
  call,   // NCCL is called for every operation, as a program does: the host path counts where it is the slower part
  graph,  // the operations were recorded into a CUDA graph, which is replayed: the kernels alone
};

// Microseconds for each operation, `samples` times: the mean over `operations` that follow one another.
std::vector<double> time_us(Ranks&, const Call&, int operations, int samples, Launch);

}  // namespace ccld::gpu
