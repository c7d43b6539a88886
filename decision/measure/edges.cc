#include "decision/measure/edges.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

// The past fades over so many samples, so that it follows drift without being carried away.
constexpr uint8_t memory = 100;
// A sample that is further off than so many mean deviations counts as if it were so far off: healthy ones hardly ever
// are, and one connection that was made in between must not move the mean.
constexpr float outlier_deviations = 5;
constexpr uint8_t outlier_samples_min = 5;

}  // namespace

void EdgeBaseline::add(Interval which, double ns) {
  const auto i = static_cast<size_t>(which);
  float &mean = mean_ns[i], &deviation = deviation_ns[i];
  if (samples[i] >= outlier_samples_min && deviation > 0)
    ns = std::clamp<double>(ns, mean - outlier_deviations * deviation, mean + outlier_deviations * deviation);
  samples[i] = std::min<uint8_t>(samples[i] + 1, memory);
  const double weight = 1.0 / samples[i], off_ns = ns - mean;
  mean = static_cast<float>(mean + weight * off_ns);
  // The first sample has no deviation; afterwards compare with the mean before it moved halfway.
  if (samples[i] > 1)
    deviation += static_cast<float>((samples[i] == 2 ? 1.0 : weight) * (std::abs(off_ns) - deviation));
}

void EdgeBaseline::add_away(double sender_part, double receiver_part) {
  away_samples = std::min<uint8_t>(away_samples + 1, memory);
  sender_away_part += static_cast<float>((sender_part - sender_away_part) / away_samples);
  receiver_away_part += static_cast<float>((receiver_part - receiver_away_part) / away_samples);
}

const char* name(Stage s) {
  switch (s) {
    case Stage::sender_proxy: return "waiting in the sender's proxy";
    case Stage::sender_nic: return "handed to the network and not yet sent";
    case Stage::wire: return "on the wire";
    case Stage::receiver_proxy: return "waiting in the receiver's proxy";
    case Stage::receiver_gpu: return "waiting for the receiver's GPU";
    case Stage::gpu_to_gpu: return "between the two GPUs";
  }
  return "?";
}

}  // namespace ccld::decision
