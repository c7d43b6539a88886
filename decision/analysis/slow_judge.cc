#include "decision/analysis/slow_judge.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "decision/locate/busy_host.h"
#include "decision/locate/slow.h"

namespace ccld::decision {
namespace {

// So many slow windows in a row without a cause and without an incident are a workload that has changed.
constexpr uint64_t unexplained_max = 12;

}  // namespace

void SlowJudge::add(const Communicator& comm, const RoundEntry& e, Nanoseconds now_ns) {
  if (good_ns_ == 0) good_ns_ = now_ns;
  detector_.add(comm, e, now_ns);
}

std::optional<Finding> SlowJudge::locate(const Communicator& comm, const SlowWindow& w, Nanoseconds now_ns) const {
  std::optional<Finding> found = locate_slow(comm, w, settings_);
  if (!found) return found;
  const double lost_ns = w.computation_ns + w.communication_ns + w.elsewhere_ns + w.unknown_ns;
  return weigh_processors(comm, *std::move(found), lost_ns, {w.started_ns, now_ns}, settings_);
}

SlowReport SlowJudge::advance(const Communicator& comm, bool open, bool elsewhere, Nanoseconds now_ns) {
  SlowReport report;
  if (!detector_.close(repeats_ > 0, now_ns)) return report;
  const SlowWindow w = detector_.last_window();
  lost_share_ = w.total_ns > 0 ? w.lost_ns / w.total_ns : 0;
  const bool losing = detector_.loses(w);
  std::optional<Finding> finding;
  if (losing) finding = locate(comm, w, now_ns);
  if (!finding) {
    repeats_ = 0;
    good_ns_ = now_ns;
    detector_.drop_older();
    if (losing && !open && !elsewhere) {
      if (++unexplained_ >= unexplained_max) {
        unexplained_ = 0;
        detector_.forget();
      }
    } else {
      unexplained_ = 0;
    }
    if (open && ++clean_ >= settings_.slow_clean_windows * 2) {
      clean_ = 0;
      report.event = SlowEvent::resolve;
    }
    return report;
  }
  clean_ = unexplained_ = 0;
  if (repeats_ == 0 || !same_cause(cause_, *finding)) {
    repeats_ = 0;
    detector_.drop_older();
  }
  ++repeats_;
  cause_ = *finding;
  const std::deque<SlowWindow>& slices = detector_.slices();
  const auto first =
      std::find_if(slices.begin(), slices.end(), [](const SlowWindow& s) { return s.first_slow_ns != 0; });
  report.onset_ns = first == slices.end() ? good_ns_ : first->first_slow_ns;
  // Nobody in particular: it takes longer to be believed.
  const uint64_t enough = settings_.slow_repeat * (finding->culprits.empty() ? 2 : 1);
  if (repeats_ < enough) return report;
  const SlowWindow all = merge(slices);
  std::optional<Finding> of_all = locate(comm, all, now_ns);
  if (!of_all || !same_cause(*of_all, *finding)) return report;
  report.finding = *std::move(of_all);
  // The same culprit once more than the repetition counter asks for; nobody at all stays a suspicion.
  const bool sure = repeats_ > settings_.slow_repeat && !report.finding.culprits.empty();
  report.event = sure ? SlowEvent::confirm : SlowEvent::suspect;
  return report;
}

}  // namespace ccld::decision
