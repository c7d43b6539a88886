#include "decision/detect/hang.h"

#include <algorithm>
#include <utility>

namespace ccld::decision {
namespace {

// Standstill shorter than this is not worth a look at the ranks; and not more looks than this.
constexpr Nanoseconds look_after_ns = 200 * ns_per_ms;
constexpr Nanoseconds look_every_ns = 100 * ns_per_ms;

// Hard evidence needs a look earlier than suspicion does.
bool process_evidence(const HangView& view) {
  return view.ranks.any([](const RankProgress& p) { return p.progress != Progress::done && cannot_return(p.life); });
}

}  // namespace

Nanoseconds HangDetector::timeout_ns(const Communicator& comm, const HangView& view, const Settings& s,
                                     bool awaited) const {
  double base_s = s.hang_suspect_s;
  // Where steps are not seen, only time tells, as in the paper.
  if (!view.measured)
    base_s = std::max(base_s, s.hang_confirm_s);
  else if (view.warmup || !awaited)
    base_s = std::max(base_s, s.hang_warmup_suspect_s);
  else if (comm.is_barrier(view.signature))
    base_s = std::max(base_s, s.barrier_hang_suspect_s);
  const Nanoseconds learned = static_cast<Nanoseconds>(s.hang_gap_factor * static_cast<double>(longest_pause_ns_));
  return std::max(seconds_to_ns(base_s), std::min(learned, seconds_to_ns(s.hang_confirm_s)));
}

std::optional<HangView> HangDetector::check(const Communicator& comm, const ProcessTable& processes, const Settings& s,
                                            Nanoseconds now_ns) {
  if (comm.moved_ns() != seen_moved_ns_) {
    if (!pause_is_warmup_) {
      longest_pause_ns_ = std::max(longest_pause_ns_, pause_ns_);
    } else if (pause_ns_ > longest_warmup_pause_ns_) {
      longest_pause_ns_ = std::max(longest_pause_ns_, std::exchange(longest_warmup_pause_ns_, pause_ns_));
    } else {
      longest_pause_ns_ = std::max(longest_pause_ns_, pause_ns_);
    }
    pause_ns_ = 0;
    seen_moved_ns_ = comm.moved_ns();
  }
  const bool idle = comm.ranks_in_flight() == 0 && comm.ranks_in_replay() == 0 && comm.ranks_in_p2p() == 0;
  if (idle || now_ns - comm.moved_ns() < look_after_ns || now_ns - looked_ns_ < look_every_ns)
    return std::nullopt;
  looked_ns_ = now_ns;
  std::optional<HangView> view = view_hang(comm, processes, s);
  if (!view) return std::nullopt;
  pause_ns_ = std::max(pause_ns_, view->stall_ns);
  pause_is_warmup_ = view->warmup;
  const Nanoseconds timeout = timeout_ns(comm, *view, s, view->awaited);
  if (view->stall_ns >= timeout) {
    view->overdue = view->stall_ns >= std::max(seconds_to_ns(s.hang_confirm_s), 2 * timeout);
    return view;
  }
  const bool process_lost = view->stall_ns >= seconds_to_ns(s.hard_evidence_s) && process_evidence(*view);
  // However long the timeout of this operation is: what no healthy job shows need not wait for it.
  if (process_lost || view->stall_ns >= seconds_to_ns(s.hang_suspect_s)) {
    view->early = true;
    return view;
  }
  return std::nullopt;
}

}  // namespace ccld::decision
