#include "decision/locate/host_or_gpu.h"

#include <algorithm>

namespace ccld::decision {
namespace {

// From here on it is the GPU, whatever a communicator says that sees late launches only.
constexpr double queued_part_min = 0.25;
// And below this it is the host, whatever one says that saw its GPU busy for an instant.
constexpr double queued_part_none = 0.05;

}  // namespace

Component host_or_gpu(const LateWord& own, const std::vector<LateWord>& others) {
  const bool agreed =
      std::all_of(others.begin(), others.end(), [&](const LateWord& o) { return o.component == own.component; });
  if (agreed) return own.component;
  double shares = own.lost_share, queued = own.lost_share * own.queued_part;
  for (const LateWord& o : others) {
    shares += o.lost_share;
    queued += o.lost_share * o.queued_part;
  }
  if (queued >= queued_part_min * shares) return Component::gpu;
  if (queued < queued_part_none * shares) return Component::process;
  return own.component;
}

}  // namespace ccld::decision
