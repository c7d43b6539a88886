#include "probe/agent/pace.h"

#include <algorithm>

#include "probe/agent/clock.h"
#include "schemas/abi/frame.h"

namespace ccld::probe {
namespace {

// Long enough for the processor time of a few passes to be more than its own noise.
constexpr uint64_t window_ns = 250 * ns_per_ms;
// At a thousand kernels a second 40 fit between two looks: a third of the ring of a channel.
constexpr uint64_t period_ns_max = 40 * ns_per_ms;
// Half of a ring may fill between two looks at the rate seen lately; the other half is for its changes.
constexpr uint64_t events_between_looks_max = abi::rounds_max / 2;
static_assert(events_between_looks_max * 2 <= abi::ops_max, "an operation is half an event");
// While nothing moves: often enough to see every change of a wait.
constexpr uint64_t stuck_period_ns = 10 * ns_per_ms;
constexpr uint64_t rest_after_ns = 3 * ns_per_s;
// With graphs the doorbell may be silent though kernels run.
constexpr uint64_t rest_with_replays_ns = 50 * ns_per_ms;
// Shorter again only below this part of the budget, so that the period does not swing.
constexpr double comfortable_part = 0.8;

}  // namespace

Pace::Pace(const PaceOptions& options) : options_(options), period_ns_(options.sample_ns) {}

void Pace::set(const PaceOptions& options) {
  options_ = options;
  period_ns_ = options.budget_ppm == 0 ? options.sample_ns : std::max(period_ns_, options.sample_ns);
  if (period_ns_ > longest_period_ns()) period_ns_ = longest_period_ns();
}

uint64_t Pace::longest_period_ns() const {
  if (events_per_s_ == 0) return std::max(period_ns_max, options_.sample_ns);
  const uint64_t half_ring_ns = events_between_looks_max * ns_per_s / events_per_s_;
  if (half_ring_ns < options_.sample_ns) return std::max(period_ns_max, options_.sample_ns);
  return std::min(std::max(period_ns_max, options_.sample_ns), half_ring_ns);
}

bool Pace::wants_cpu(uint64_t now_ns) const { return window_begin_ns_ == 0 || now_ns - window_begin_ns_ >= window_ns; }

void Pace::measure(uint64_t now_ns, uint64_t cpu_ns, const Activity& activity) {
  const uint64_t elapsed_ns = now_ns - window_begin_ns_;
  const bool known = window_begin_ns_ != 0 && elapsed_ns != 0;
  if (known) events_per_s_ = (activity.events - window_events_) * ns_per_s / elapsed_ns;
  // What an idle thread costs says nothing about the period in flight.
  if (known && window_busy_passes_ * 2 >= window_passes_ && options_.budget_ppm != 0 && !resting_) {
    const double budget = static_cast<double>(options_.budget_ppm) * 1e-6 * std::max(1u, activity.gpus);
    const double share = static_cast<double>(cpu_ns - window_cpu_ns_) / static_cast<double>(elapsed_ns);
    const double factor = share / budget;
    const uint64_t before_ns = period_ns_;
    if (factor > 1 || factor < comfortable_part) {
      // Towards the middle of what is comfortable, at most by half or to the double at a time.
      const double wanted = static_cast<double>(period_ns_) * std::clamp(factor / 0.9, 0.5, 2.0);
      period_ns_ = static_cast<uint64_t>(wanted);
    }
    period_ns_ = std::clamp(period_ns_, options_.sample_ns, longest_period_ns());
    slowdowns_ += period_ns_ > before_ns;
  }
  period_ns_ = std::clamp(period_ns_, options_.sample_ns, longest_period_ns());
  window_begin_ns_ = now_ns;
  window_cpu_ns_ = cpu_ns;
  window_events_ = activity.events;
  window_passes_ = window_busy_passes_ = 0;
}

Pace::Step Pace::next(uint64_t now_ns, uint64_t cpu_ns, const Activity& activity) {
  if (wants_cpu(now_ns)) measure(now_ns, cpu_ns, activity);
  ++window_passes_;
  window_busy_passes_ += activity.in_flight;
  if (activity.in_flight) {
    quiet_since_ns_ = 0;
    resting_ = false;
    wait_ns_ = activity.stuck ? std::max(period_ns_, std::min(stuck_period_ns, longest_period_ns())) : period_ns_;
    return {wait_ns_, false};
  }
  if (quiet_since_ns_ == 0) quiet_since_ns_ = now_ns;
  resting_ = now_ns - quiet_since_ns_ >= rest_after_ns;
  if (resting_) {
    wait_ns_ = activity.replays ? std::min(rest_with_replays_ns, options_.rest_ns) : options_.rest_ns;
    return {std::max(wait_ns_, options_.sample_ns), true};
  }
  wait_ns_ = std::max(period_ns_, std::min(std::max(wait_ns_, period_ns_) * 2, options_.idle_ns));
  return {wait_ns_, false};
}

}  // namespace ccld::probe
