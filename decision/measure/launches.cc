#include "decision/measure/launches.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

constexpr uint32_t remembered = 99;  // rounds
// A host launches in turn where launches after the operation before differ by no more than this part of what queues
// differ by.
constexpr double in_turn_part_max = 0.1;
constexpr float in_turn_often = 0.5;
// Clocks of a host and of its GPU drift apart by no more between two rounds from which is learnt.
constexpr double clocks_drift_ns = 50'000;

void add_to_mean(float& mean, double x, uint32_t samples) { mean += static_cast<float>((x - mean) / (samples + 1)); }

}  // namespace

void learn_launches(const RoundEntry& e, KindBaseline& b) {
  const uint32_t samples = std::min(b.queued_samples++, remembered);
  double off_ns = 0, compared = 0, in_turn = 0;
  for (size_t r = 0; r < e.cells.size(); ++r) {
    const RoundCell& c = e.cells[r];
    if (!c.timed || !c.has_queued) continue;
    RankBaseline& own = b.ranks[r];
    const auto queued_ns = static_cast<float>(c.queued_ns);
    if (std::isnan(own.queued_ns)) own.queued_ns = queued_ns;  // not all ranks have reported every round
    if (c.gap_ns >= 0) {
      const auto launched_ns = static_cast<float>(c.gap_ns - c.queued_ns);
      if (!std::isnan(own.launched_ns)) {
        ++compared;
        off_ns += std::abs(queued_ns - own.queued_ns);
        in_turn += std::abs(launched_ns - own.launched_ns) <= in_turn_part_max * b.queued_deviation_ns;
      }
      own.launched_ns = static_cast<float>(std::fmin(launched_ns, own.launched_ns + clocks_drift_ns));
    }
    add_to_mean(own.queued_ns, queued_ns, samples);
  }
  if (compared == 0) return;
  const uint32_t before = samples == 0 ? 0 : samples - 1;  // the first round has nothing to be compared with
  add_to_mean(b.queued_deviation_ns, off_ns / compared, before);
  add_to_mean(b.in_turn_part, in_turn / compared, before);
}

double queued_ns(const KindBaseline& b, size_t rank, const RoundCell& c, double late_ns, double elsewhere_ns) {
  if (!c.has_queued || rank >= b.ranks.size()) return NAN;
  const RankBaseline& own = b.ranks[rank];
  const double beyond_usual_ns = static_cast<double>(c.queued_ns) - own.queued_ns;
  if (b.in_turn_part < in_turn_often || c.gap_ns < 0 || std::isnan(own.launched_ns)) return beyond_usual_ns;
  // From the end of the operation before to the launch is the host's time, or that of other communicators' kernels; the
  // rest is the GPU's. (What queues are like depends on where in the iteration an operation is, and on what else the GPU
  // waits for: so that decides only what is left open.)
  const double before_launch_ns = static_cast<double>(c.gap_ns - c.queued_ns) - own.launched_ns;
  const double host_most_ns = std::clamp(before_launch_ns, 0.0, late_ns),
               host_least_ns = std::clamp(before_launch_ns - elsewhere_ns, 0.0, late_ns);
  return std::clamp(beyond_usual_ns, late_ns - host_most_ns, late_ns - host_least_ns);
}

}  // namespace ccld::decision
