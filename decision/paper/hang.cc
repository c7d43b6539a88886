#include "decision/paper/hang.h"

#include "decision/paper/comparable.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds look_every_ns = 100 * ns_per_ms;

}  // namespace

std::optional<HangView> PaperHangDetector::check(const Communicator& comm, const ProcessTable& processes,
                                                 const Settings& s, Nanoseconds now_ns) {
  if (comm.ranks_in_flight() == 0 || now_ns - looked_ns_ < look_every_ns) return std::nullopt;
  looked_ns_ = now_ns;
  std::optional<HangView> view = view_hang(comm, processes, s);
  if (!view || view->p2p || is_barrier_by_paper(view->signature, s)) return std::nullopt;
  for (const RankModel& r : comm.ranks()) {
    if (!r.in_flight()) continue;
    for (const InFlightOp& o : r.last.operations) {
      if (o.key() != view->key() || o.replay != 0) continue;  // the ages of replays are those of the capture
      const Nanoseconds duration_ns = static_cast<Nanoseconds>(o.enter_age_ms) * ns_per_ms + (now_ns - r.sampled_ns);
      if (duration_ns >= seconds_to_ns(s.hang_confirm_s)) return view;
    }
  }
  return std::nullopt;
}

}  // namespace ccld::decision
