#include "decision/iteration/iteration_times.h"

#include <algorithm>
#include <cmath>

#include "decision/iteration/period.h"
#include "decision/model/round_history.h"

namespace ccld::decision {
namespace {

constexpr size_t search_every = 64;     // rounds between two searches for a period
constexpr size_t search_min = 24;       // rounds
constexpr double match_min = 0.9;       // below, it is another pattern: an evaluation, another model
constexpr size_t now_samples = 6;
constexpr Nanoseconds gaps_every_ns = 50 * ns_per_ms;
// What is between two samples for so many times longer than usual is a pause. Chosen: a few lost samples are shorter,
// the recorded checkpoint was some 30 times as long.
constexpr double pause_times = 4;
constexpr double rank_part_min = 0.6;   // of the rise, so that a rank stands out ...
constexpr double others_part_max = 0.3; // ... against the middle of all ranks

template <class Values>
double quantile(Values values, double part) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double comm_time_ns(const RoundEntry& e) {
  Nanoseconds t_min = INT64_MAX;
  for (const RoundCell& c : e.cells)
    if (c.timed) t_min = std::min(t_min, c.duration_ns());
  return t_min == INT64_MAX ? 0 : static_cast<double>(t_min);
}

}  // namespace

uint16_t IterationTimes::kind_number(const Signature& s) {
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (difference(kinds_[i], s) == SignatureField::none) return static_cast<uint16_t>(i);
  constexpr size_t kinds_max = 64;  // the others count as one
  if (kinds_.size() < kinds_max) kinds_.push_back(s);
  return static_cast<uint16_t>(kinds_.size() - 1);
}

const IterationTimes::Seen* IterationTimes::seen(uint64_t op) const {
  const auto it = std::lower_bound(seen_.begin(), seen_.end(), op, [](const Seen& s, uint64_t v) { return s.op < v; });
  return it != seen_.end() && it->op == op ? &*it : nullptr;
}

void IterationTimes::search() {
  since_search_ = 0;
  // The newest rounds without a hole.
  std::vector<uint16_t> kinds;
  std::vector<double> intervals;
  for (size_t i = seen_.size(); i-- > 1;) {
    if (seen_[i].op != seen_[i - 1].op + 1) break;
    kinds.insert(kinds.begin(), seen_[i].kind);
    intervals.insert(intervals.begin(), seen_[i].interval_ns);
  }
  const size_t period = find_period(kinds, intervals);
  if (period == 0 || period == period_) return;
  period_ = period;
  shift_ = 0;
  pattern_.assign(period, 0);
  for (size_t i = seen_.size() - period; i < seen_.size(); ++i) pattern_[place(seen_[i].op)] = seen_[i].kind;
  in_pattern_ = true;
  match_ = 1;
  open_ = {};
  changes_.restart();
  samples_.clear();
  change_ = 0;
  // What follows the longest pause begins the iteration.
  std::vector<double> pause(period, 0);
  for (size_t i = 0; i < intervals.size(); ++i) pause[place(seen_.back().op - (intervals.size() - 1 - i))] += intervals[i];
  start_ = static_cast<uint64_t>(std::max_element(pause.begin(), pause.end()) - pause.begin());
}

// After something else, the iterations go on at other operation numbers.
void IterationTimes::find_shift() {
  since_shift_ = 0;
  if (seen_.size() < period_) return;
  for (uint64_t shift = 0; shift < period_; ++shift) {
    size_t same = 0;
    for (size_t i = seen_.size() - period_; i < seen_.size(); ++i) same += pattern_[(seen_[i].op + shift) % period_] == seen_[i].kind;
    if (same < period_) continue;
    shift_ = shift;
    match_ = 1;
    return;
  }
}

void IterationTimes::watch_gaps(const RoundEntry& e, Nanoseconds now_ns) {
  if (now_ns - gaps_ns_ < gaps_every_ns) return;
  gaps_ns_ = now_ns;
  for (const RoundCell& c : e.cells)
    if (!c.timed || c.gap_ns < 0) return;
  constexpr uint32_t memory = 200;
  const bool changed = change_ != 0;
  std::vector<float>& mean = changed ? gap_ns_ : usual_gap_ns_;
  uint32_t& n = changed ? gaps_ : usual_gaps_;
  mean.resize(e.cells.size());
  n = std::min(n + 1, memory);
  for (size_t r = 0; r < e.cells.size(); ++r) mean[r] += (static_cast<float>(e.cells[r].gap_ns) - mean[r]) / static_cast<float>(n);
}

void IterationTimes::add(const RoundEntry& e, Nanoseconds now_ns) {
  const Signature* s = e.signature();
  if (e.cells.empty() || !s) return;
  // Of the operations of a graph, one stands for all: its replays are the iterations.
  if (e.replay != 0) {
    if (replayed_op_ == 0 && seen_.empty()) replayed_op_ = e.op.value;
    if (e.op.value != replayed_op_) return;
  } else if (replayed_op_ != 0) {
    return;
  }
  Seen now;
  now.op = e.replay != 0 ? e.replay : e.op.value;
  if (!seen_.empty() && now.op <= seen_.back().op) return;
  now.kind = kind_number(*s);
  // What shares the kernel of another operation has its place, and no time.
  if (e.cells[0].timed) {
    now.begin_ns = e.cells[0].begin_device_ns;
    now.communication_ns = static_cast<float>(comm_time_ns(e));
  }
  if (!seen_.empty() && seen_.back().begin_ns != 0 && now.begin_ns > seen_.back().begin_ns) now.interval_ns = static_cast<float>(now.begin_ns - seen_.back().begin_ns);
  seen_.push_back(now);
  if (seen_.size() > seen_max) seen_.pop_front();
  watch_gaps(e, now_ns);
  ++since_search_;
  if (period_ == 0) {
    if (seen_.size() >= search_min && since_search_ >= search_min) search();
    return;
  }
  // The first ones may all have come between two pauses.
  if (period_ == 1 && since_search_ >= search_every) search();
  const Seen* before = now.op > period_ ? seen(now.op - period_) : nullptr;
  if (!before) {
    open_ = {};
    return;
  }
  const double weight = 1.0 / static_cast<double>(std::max<size_t>(period_, 8));
  match_ += weight * ((pattern_[place(now.op)] == now.kind ? 1 : 0) - match_);
  if (match_ < match_min && ++since_shift_ >= period_) find_shift();
  const bool was_in_pattern = in_pattern_;
  in_pattern_ = match_ >= match_min;
  if (in_pattern_ && !was_in_pattern) open_ = {}, resumed_ = now.op;
  open_.communication_ns += now.communication_ns;
  if (!in_pattern_) {
    open_ = {};
    if (since_search_ >= search_every) search();
    return;
  }
  // The iteration in which it went on is none.
  if (place(now.op) != start_ || now.op < resumed_ + period_) return;
  if (before->begin_ns == 0 || now.begin_ns <= before->begin_ns) {
    open_ = {};
    return;
  }
  open_.time_ns += static_cast<double>(now.begin_ns - before->begin_ns);
  ++open_.iterations;
  if (open_.time_ns < static_cast<double>(sample_ns)) return;
  const auto n = static_cast<double>(open_.iterations);
  sample({static_cast<float>(open_.time_ns / n), static_cast<float>(open_.communication_ns / n), e.op.value, now_ns});
  open_ = {};
}

IterationLevel IterationTimes::level(Samples from, Samples to) {
  std::vector<double> times, communication;
  for (auto it = from; it != to; ++it) times.push_back(it->time_ns), communication.push_back(it->communication_ns);
  return {quantile(times, 0.5), quantile(communication, 0.5), times.size()};
}

// Until then, without what pauses last beyond pause_times. Otherwise a short slow phase before a long checkpoint would
// be a rise that lasts.
Nanoseconds IterationTimes::lasts_ns(Samples from, Samples to, Nanoseconds until_ns) {
  std::vector<double> apart_ns;
  for (auto it = from; it != to && it + 1 != to; ++it)
    apart_ns.push_back(static_cast<double>((it + 1)->at_ns - it->at_ns));
  if (apart_ns.empty()) return 0;
  const double most_ns = pause_times * quantile(apart_ns, 0.5);
  double sum_ns = std::min(static_cast<double>(until_ns - (to - 1)->at_ns), most_ns);
  for (const double ns : apart_ns) sum_ns += std::min(ns, most_ns);
  return static_cast<Nanoseconds>(sum_ns);
}

void IterationTimes::sample(const Sample& s) {
  samples_.push_back(s);
  if (samples_.size() > samples_max) forget_one();
  const std::optional<size_t> ago = changes_.add(std::log(std::max<double>(s.time_ns, 1)));
  if (change_ == 0) {
    if (ago && *ago < samples_.size()) {
      change_ = samples_.size() - *ago;
      first_of_change_ = samples_[change_];
      forgotten_ns_ = 0;
      gap_ns_.clear();
      gaps_ = 0;
    }
    return;
  }
  // Back where it was, or lower: a jitter, which widens what is usual, or a relief, which is the new usual. If the
  // newest is not, a rise may just begin.
  const double usual_ns = usual().time_ns, now_ns = now().time_ns,
               back_ns = usual_ns * (1 + settings_.iteration_rise_min / 2);
  if (samples_.size() - change_ >= now_samples && std::max<double>(now_ns, s.time_ns) < back_ns) return accept();
  // A jitter before the rise belongs to the level before it.
  if (now_ns < usual_ns * (1 + settings_.iteration_rise_min)) return;
  while (change_ + 1 < samples_.size() && samples_[change_].time_ns < (usual_ns + now_ns) / 2)
    first_of_change_ = samples_[++change_];
}

// Half of the memory is for the level before a change: as long as that lasts it is compared with it.
void IterationTimes::forget_one() {
  if (change_ == 0 || change_ > samples_max / 2) {
    samples_.pop_front();
    if (change_ > 0) --change_;
    return;
  }
  const Samples oldest = samples_.begin() + static_cast<std::ptrdiff_t>(change_);
  const Nanoseconds until_ns = samples_.back().at_ns;
  forgotten_ns_ += lasts_ns(oldest, samples_.end(), until_ns) - lasts_ns(oldest + 1, samples_.end(), until_ns);
  samples_.erase(oldest);
}

IterationLevel IterationTimes::usual() const {
  const auto end = change_ == 0 ? samples_.end() : samples_.begin() + static_cast<std::ptrdiff_t>(change_);
  return level(samples_.begin(), end);
}

IterationLevel IterationTimes::now() const {
  const size_t n = std::min(now_samples, samples_.size());
  return level(samples_.end() - static_cast<std::ptrdiff_t>(n), samples_.end());
}

bool IterationTimes::verified() const {
  if (change_ == 0 || samples_.size() - change_ < settings_.iteration_verify_min || change_ < settings_.iteration_verify_min) return false;
  const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(change_);
  // What lasted no longer than a rise is asked to is one phase of several, and what follows may be another.
  if (lasts_ns(samples_.begin(), middle, (middle - 1)->at_ns) < seconds_to_ns(lasting_s(settings_))) return false;
  std::vector<double> before, after;
  for (auto it = samples_.begin(); it != middle; ++it) before.push_back(it->time_ns);
  for (auto it = middle; it != samples_.end(); ++it) after.push_back(it->time_ns);
  return quantile(after, 0.5) >= (1 + settings_.iteration_rise_min) * quantile(before, 0.5) &&
         quantile(after, 0.25) > quantile(before, 0.9);
}

std::optional<IterationChange> IterationTimes::risen(Nanoseconds now_ns) const {
  if (!verified()) return std::nullopt;
  const Sample& first = first_of_change_;
  IterationChange c;
  const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(change_);
  c.lasts_ns = forgotten_ns_ + lasts_ns(middle, samples_.end(), now_ns);
  if (c.lasts_ns < seconds_to_ns(lasting_s(settings_))) return std::nullopt;
  c.before = level(samples_.begin(), middle);
  c.after = level(middle, samples_.end());
  c.since = OpSeq{first.op};
  c.since_ns = first.at_ns;
  if (usual_gaps_ >= now_samples && gaps_ >= now_samples && gap_ns_.size() == usual_gap_ns_.size() && gap_ns_.size() > 1) {
    std::vector<double> growth;
    for (size_t r = 0; r < gap_ns_.size(); ++r) growth.push_back(gap_ns_[r] - usual_gap_ns_[r]);
    const auto most = std::max_element(growth.begin(), growth.end());
    const double rise = (c.after.time_ns - c.before.time_ns) / static_cast<double>(period_);
    if (*most >= rank_part_min * rise && quantile(growth, 0.5) <= others_part_max * rise) {
      c.rank = Rank{static_cast<int32_t>(most - growth.begin())};
      c.rank_part = std::min(1.0, *most / rise);
    }
  }
  return c;
}

void IterationTimes::accept() {
  change_ = 0;
  changes_.restart();
  if (gaps_ > 0) usual_gap_ns_ = gap_ns_, usual_gaps_ = gaps_;
  while (samples_.size() > samples_max / 2) samples_.pop_front();
}

std::optional<double> IterationTimes::position(OpSeq op) const {
  if (period_ < 2 || !in_pattern_ || replayed_op_ != 0) return std::nullopt;
  return static_cast<double>((place(op.value) + period_ - start_) % period_) / static_cast<double>(period_);
}

}  // namespace ccld::decision
