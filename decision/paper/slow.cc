#include "decision/paper/slow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decision/paper/comparable.h"

namespace ccld::decision {
namespace {

void consider_worst(const Communicator& comm, const PaperBaseline& b, const RoundEntry& e, const Signature& s,
                    PaperRound& worst) {
  for (const std::vector<Rank>& group : comparable_groups(comm, s.algorithm)) {
    double high = 0, low = INFINITY;
    for (Rank r : group) {
      const auto d = static_cast<double>(e.cells[r.value].duration_ns());
      high = std::max(high, d);
      low = std::min(low, d);
    }
    if (group.empty() || high - low <= worst.range_ns) continue;
    worst = {high - low, high, low, b.t_base_ns(), e.op, s, b.is_fixed(), {}, {}, {}};
    for (const RoundCell& c : e.cells) {
      worst.durations_ns.push_back(c.duration_ns());
      worst.send_changes.push_back(c.send_changes);
      worst.recv_changes.push_back(c.recv_changes);
    }
  }
}

}  // namespace

RoundKind kind_of(const Signature& s) {
  return {s.count,
          s.root,
          static_cast<uint8_t>(s.function),
          static_cast<uint8_t>(s.datatype),
          static_cast<uint8_t>(s.reduction),
          static_cast<uint8_t>(s.algorithm),
          static_cast<uint8_t>(s.protocol),
          s.channels};
}

PaperBaseline::PaperBaseline(const Settings& settings) : t_base_ns_(settings.baseline_init_ms * 1e6) {}

bool PaperBaseline::warm(const Settings& settings) { return ++seen_ > settings.warmup_rounds; }

void PaperBaseline::count(double t_max_ns, const Settings& settings, Nanoseconds now_ns) {
  if (fixed_) return;
  if (counted_ == 0) started_ns_ = now_ns;
  const bool time_is_over = now_ns - started_ns_ > seconds_to_ns(settings.baseline_s);
  if (!(time_is_over && counted_ > 0)) {
    sum_max_ns_ += t_max_ns;
    ++counted_;
  }
  if (counted_ >= settings.baseline_rounds_max || time_is_over) {
    t_base_ns_ = sum_max_ns_ / static_cast<double>(counted_);
    fixed_ = true;
  }
}

PaperBaseline* PaperSlowDetector::baseline(const RoundKind& kind) {
  const auto it = baselines_.find(kind);
  if (it != baselines_.end()) return &it->second;
  if (baselines_.size() >= settings_.signatures_max) return nullptr;
  return &baselines_.try_emplace(kind, settings_).first->second;
}

void PaperSlowDetector::add(const Communicator& comm, const RoundEntry& e, Nanoseconds now_ns) {
  if (started_ns_ == 0) started_ns_ = now_ns;
  if (good_ns_ == 0) good_ns_ = now_ns;
  const Signature* s = e.signature();
  if (!comm.rank_count_known() || comm.rank_count() < 2 || e.mismatch_ns != 0 || !s) return;
  if (e.cells.size() < static_cast<size_t>(comm.rank_count()) || is_barrier_by_paper(*s, settings_)) return;
  RoundKind kind = kind_of(*s);
  kind.replayed = e.replay != 0;
  double t_max_ns = 0;
  for (const RoundCell& c : e.cells) {
    if (!c.reported || !c.timed) return;
    kind.kernel_operations = std::max(kind.kernel_operations, c.kernel_operations);
    t_max_ns = std::max(t_max_ns, static_cast<double>(c.duration_ns()));
  }
  PaperBaseline* b = baseline(kind);
  if (!b || !b->warm(settings_)) return;
  if (b->t_base_ns() > 0) {
    ++rounds_;
    consider_worst(comm, *b, e, *s, worst_);
  }
  b->count(t_max_ns, settings_, now_ns);
}

SlowReport PaperSlowDetector::advance(const Communicator& comm, bool open, Nanoseconds now_ns) {
  SlowReport report;
  if (started_ns_ == 0) return report;
  const Nanoseconds length = seconds_to_ns(settings_.slow_window_s), age = now_ns - started_ns_;
  constexpr int prolonged_max = 10;
  if (age < length || (rounds_ < settings_.slow_rounds_min && age < prolonged_max * length)) return report;
  const PaperRound worst = std::exchange(worst_, {});
  const uint64_t rounds = std::exchange(rounds_, 0);
  started_ns_ = now_ns;
  if (rounds == 0) return report;
  if (worst.ratio() <= settings_.slow_theta) {
    repeats_ = 0;
    good_ns_ = now_ns;
    if (open && ++clean_ >= settings_.slow_clean_windows) {
      clean_ = 0;
      report.event = SlowEvent::resolve;
    }
    return report;
  }
  clean_ = 0;
  report.onset_ns = good_ns_;
  if (++repeats_ < settings_.slow_repeat) return report;
  report.finding = locate_slow_paper(comm, worst, settings_);
  report.event = SlowEvent::confirm;
  return report;
}

}  // namespace ccld::decision
