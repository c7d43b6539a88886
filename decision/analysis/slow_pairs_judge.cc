#include "decision/analysis/slow_pairs_judge.h"

#include <optional>
#include <utility>

#include "decision/locate/busy_host.h"
#include "decision/locate/slow.h"
#include "decision/locate/slow_p2p.h"

namespace ccld::decision {

void SlowPairsJudge::add(const Communicator& comm, const P2pRounds& m, const ProcessModel& process,
                         Nanoseconds now_ns) {
  const bool was_used = used();
  detector_.add(comm, m, process, now_ns);
  if (!was_used && used()) good_ns_ = now_ns;
}

SlowReport SlowPairsJudge::advance(const Communicator& comm, bool open, Nanoseconds now_ns) {
  SlowReport report;
  if (!detector_.is_due(now_ns)) return report;
  std::optional<Finding> finding;
  if (detector_.kernels() > 0) finding = locate_slow_p2p(comm, detector_, settings_, lost_share_);
  const Nanoseconds started_ns = detector_.started_ns();
  if (finding) {
    const double lost_ns = lost_share_ * static_cast<double>(now_ns - started_ns);
    finding = weigh_processors(comm, *std::move(finding), lost_ns, {started_ns, now_ns}, settings_);
  }
  detector_.next_window(!finding, now_ns);
  if (!finding) {
    repeats_ = 0;
    good_ns_ = now_ns;
    if (open && ++clean_ >= 2 * settings_.slow_clean_windows) {
      clean_ = 0;
      report.event = SlowEvent::resolve;
    }
    return report;
  }
  clean_ = 0;
  if (repeats_ > 0 && !same_cause(cause_, *finding)) repeats_ = 0, good_ns_ = started_ns;
  ++repeats_;
  cause_ = *finding;
  report.onset_ns = good_ns_;
  // Windows do not overlap here: one more than for collectives covers the same time.
  if (repeats_ < settings_.slow_repeat + (finding->culprits.empty() ? settings_.slow_repeat : 0)) return report;
  report.finding = *std::move(finding);
  const bool sure = repeats_ > settings_.slow_repeat && !report.finding.culprits.empty();
  report.event = sure ? SlowEvent::confirm : SlowEvent::suspect;
  return report;
}

}  // namespace ccld::decision
