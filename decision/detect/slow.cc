#include "decision/detect/slow.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "decision/measure/launches.h"
#include "decision/measure/rank_gaps.h"

namespace ccld::decision {
namespace {

// A round by clocks that agree.
struct ClockedRound {
  double first_begin_ns = INFINITY, last_begin_ns = -INFINITY, last_end_ns = -INFINITY;
};

}  // namespace

// A round, taken apart.
struct SlowDetector::Parts {
  double t_max_ns = 0, t_min_ns = INFINITY;
  double gap_min_ns = INFINITY, gap_max_ns = 0;
  bool gaps_known = true;  // otherwise lateness is read from durations
  size_t timed = 0;        // ranks that were measured
  uint32_t kernel_operations = 1;
  double skew_ns = 0;  // largest minus smallest gap
  double comm_ns = 0;  // since the last start
  // The gap of a measured rank; only differences between ranks mean something.
  double gap_ns(const RoundCell& c) const {
    return gaps_known ? static_cast<double>(c.gap_ns) : t_max_ns - static_cast<double>(c.duration_ns());
  }
  // By rank; NaN: not measured.
  std::vector<double> gaps_ns(const RoundEntry& e) const {
    std::vector<double> out(e.cells.size(), NAN);
    for (size_t r = 0; r < out.size(); ++r)
      if (e.cells[r].timed) out[r] = gap_ns(e.cells[r]);
    return out;
  }
  double total_ns() const { return comm_ns + (gaps_known ? gap_max_ns : skew_ns); }
  // The last to start has the least duration, unless it left early: then the skew knows better.
  void set_skew(double ns) {
    skew_ns = ns;
    comm_ns = std::max(t_min_ns, t_max_ns - ns);
  }
  // Who ends last has not always begun first.
  void set_by_clocks(const ClockedRound& c) {
    skew_ns = c.last_begin_ns - c.first_begin_ns;
    comm_ns = c.last_end_ns - c.last_begin_ns;
  }
};

namespace {

constexpr uint32_t learnt_per_slice = 10;  // rounds of one kind: the past fades over minutes, not over seconds
constexpr size_t slices_max = 8, slices_of_window = 2;
constexpr size_t largest_late_max = 64;  // ranks that are remembered of the worst round
constexpr double habit_factor = 1.5;
// Clocks of GPUs drift apart by less than a noticeable wait in this time.
constexpr Nanoseconds clocks_agree_ns = 60 * ns_per_s;
// Ranks that begin a slow round within this part of it begin it together.
constexpr double together_part_max = 0.01;
constexpr double usual_part_min = 0.01;  // pauses of fewer rounds are checkpoints, however long

uint32_t whole_us(uint64_t ns) { return static_cast<uint32_t>(ns / 1000); }

double median_known(std::vector<float> v) {
  std::erase_if(v, [](float x) { return std::isnan(x); });
  return median(v);
}

// nullopt: it is not known of all GPUs how their clocks agree.
std::optional<ClockedRound> clocked(const RoundEntry& e, const std::vector<RankBegin>& begun) {
  ClockedRound c;
  for (size_t r = 0; r < begun.size(); ++r) {
    if (!e.cells[r].timed) continue;
    const double begin_ns = begun[r].begun_ns;
    if (!std::isfinite(begin_ns)) return std::nullopt;
    c.first_begin_ns = std::min(c.first_begin_ns, begin_ns);
    c.last_begin_ns = std::max(c.last_begin_ns, begin_ns);
    c.last_end_ns = std::max(c.last_end_ns, begin_ns + static_cast<double>(e.cells[r].duration_ns()));
  }
  return c;
}

bool learns_first(const KindBaseline& b, double t_max_ns) {
  constexpr size_t past_min = 5;
  if (b.first.size() < past_min) return false;
  std::vector<float> past;
  for (const KindBaseline::First& f : b.first) past.push_back(f.max_ns);
  return t_max_ns < 2 * median(past);
}

}  // namespace

Nanoseconds SlowDetector::slice_ns() const {
  const Nanoseconds window = seconds_to_ns(settings_.slow_window_s);
  return std::max<Nanoseconds>(1, window / 2);
}

// Gaps do not tell who begins later where one rank left the operation before later than another.
std::vector<RankBegin> SlowDetector::begins(const KindBaseline& b, const RoundEntry& e, const Parts& p,
                                            Nanoseconds now_ns) const {
  std::vector<RankBegin> out(e.cells.size());
  const bool past = b.ranks.size() == out.size() && b.queued_samples > 0;
  const bool common = together_us_.size() == out.size() && now_ns - together_seen_ns_ < clocks_agree_ns;
  for (size_t r = 0; r < out.size(); ++r) {
    const RoundCell& c = e.cells[r];
    if (!c.timed) continue;
    out[r].at_ns = p.gap_ns(c);
    if (common && together_us_[r] != 0)
      out[r].begun_ns = 1e3 * static_cast<int32_t>(whole_us(c.begin_device_ns) - together_us_[r]);
    if (c.has_queued && past) out[r].queued_ns = static_cast<double>(c.queued_ns) - b.ranks[r].queued_ns;
  }
  return out;
}

void SlowDetector::learn(const Communicator& comm, KindBaseline& b, const RoundEntry& e, const Parts& p,
                         Nanoseconds now_ns) {
  const std::vector<double> gap_ns = p.gaps_ns(e);
  const double middle = median_known({gap_ns.begin(), gap_ns.end()});
  if (baselines_.grant_ranks(b, e.cells.size())) {
    const uint32_t n = std::min(b.rank_samples++, 99u);
    const double weight = 1.0 / (n + 1);
    for (size_t r = 0; r < e.cells.size(); ++r) {
      const RoundCell& c = e.cells[r];
      if (!c.timed) continue;
      RankBaseline& own = b.ranks[r];
      double x = p.gap_ns(c) - middle;
      if (n >= 5 && own.excess_deviation_ns > 0)
        x = std::clamp<double>(x, own.excess_ns - 5 * own.excess_deviation_ns,
                               own.excess_ns + 5 * own.excess_deviation_ns);
      const double off = x - own.excess_ns;
      own.excess_ns += static_cast<float>(weight * off);
      if (n > 0)
        own.excess_deviation_ns +=
            static_cast<float>((n == 1 ? 1.0 : weight) * (std::abs(off) - own.excess_deviation_ns));
    }
    learn_launches(e, b);
  }
  if (const Links links = match_links(comm, e); !links.empty()) {
    const std::vector<RankBegin> begun = begins(b, e, p, now_ns);
    for (const auto& [edge, intervals] : links)
      if (EdgeBaseline* base = baselines_.edge(b, edge, e.cells.size())) learn_waits(edge, intervals, begun, *base);
    together_us_.resize(e.cells.size());
  }
  // Otherwise there were no links so far, and there is nothing to compare.
  if (together_us_.size() == e.cells.size()) note_together(e, &RoundCell::end_device_ns, now_ns);
}

void SlowDetector::note_together(const RoundEntry& e, uint64_t RoundCell::*device_ns, Nanoseconds now_ns) {
  std::vector<int32_t> since_us;  // by the clocks of ranks that were measured then and now
  const bool agree = now_ns - together_seen_ns_ < clocks_agree_ns;
  for (size_t r = 0; r < e.cells.size(); ++r)
    if (agree && e.cells[r].timed && together_us_[r] != 0)
      since_us.push_back(static_cast<int32_t>(whole_us(e.cells[r].*device_ns) - together_us_[r]));
  const auto middle = since_us.begin() + static_cast<std::ptrdiff_t>(since_us.size() / 2);
  if (!since_us.empty()) std::nth_element(since_us.begin(), middle, since_us.end());
  for (size_t r = 0; r < e.cells.size(); ++r) {
    uint32_t& instant_us = together_us_[r];
    if (e.cells[r].timed)
      instant_us = std::max(1u, whole_us(e.cells[r].*device_ns));
    else if (since_us.empty() || instant_us == 0)
      instant_us = 0;
    else
      instant_us = std::max(1u, instant_us + static_cast<uint32_t>(*middle));
  }
  together_seen_ns_ = now_ns;
}

void SlowDetector::blame(const Communicator& comm, const KindBaseline& b, const RoundEntry& e, Parts& p,
                         Nanoseconds now_ns) {
  SlowWindow& w = slice_;
  const size_t n = e.cells.size();
  w.ranks.resize(n);
  const double factor = settings_.slow_spread_factor;
  const std::vector<RankBegin> begun = begins(b, e, p, now_ns);
  // One that left the operation before later than others has a shorter gap, and is not early.
  const std::optional<ClockedRound> by_clocks = clocked(e, begun);
  if (by_clocks) p.set_by_clocks(*by_clocks);
  p.gaps_known |= by_clocks.has_value();  // of the others
  // While all rounds are slow, one that all began together renews what is known of the clocks.
  if (by_clocks && p.skew_ns <= together_part_max * p.t_max_ns && now_ns - together_seen_ns_ > clocks_agree_ns / 2)
    note_together(e, &RoundCell::begin_device_ns, now_ns);

  const RankGaps gaps = gaps_of(comm, e, p.gaps_ns(e), !p.gaps_known);
  std::vector<float> computing = gaps.own_ns;
  const double middle = median_known(gaps.own_ns), idle_middle = median_known(gaps.last_ns);
  for (size_t r = 0; r < n; ++r) w.ranks[r].untimed += !e.cells[r].timed;
  const double skew_lost = std::max(0.0, p.skew_ns - b.skew_ns.mean());
  double computation = std::min(skew_lost, std::max(0.0, gaps.own_most_ns - gaps.own_least_ns - b.skew_ns.mean()));
  if (computation < factor * b.skew_ns.deviation()) computation = 0;
  double communication = std::max(0.0, p.comm_ns - b.comm_ns.mean());
  if (communication < factor * b.comm_ns.deviation()) communication = 0;
  w.computation_ns += computation;
  if (gaps.torn)
    w.unknown_ns += skew_lost - computation;
  else
    w.elsewhere_ns +=
        std::max(0.0, std::min(p.skew_ns, gaps.most_ns - gaps.least_ns) - (gaps.own_most_ns - gaps.own_least_ns));
  w.communication_ns += communication;
  for (size_t r = 0; r < n; ++r)
    if (!e.cells[r].timed) w.ranks[r].unseen_ns += static_cast<float>(communication);

  if (computation > 0) {
    const bool past = b.ranks.size() == n && b.rank_samples > 0;
    double excess_max = 0;
    for (size_t r = 0; r < n; ++r) {
      if (!std::isfinite(computing[r])) continue;
      double excess = computing[r] - middle;
      if (past) excess -= b.ranks[r].excess_ns;
      if (past && excess < factor * b.ranks[r].excess_deviation_ns) excess = 0;
      computing[r] = static_cast<float>(excess);
      excess_max = std::max(excess_max, excess);
    }
    const bool largest = computation > w.largest_ns;
    if (largest) w.largest_ns = computation, w.largest_late.clear();
    for (size_t r = 0; r < n; ++r) {
      if (!(computing[r] > 0)) continue;
      RankLoss& own = w.ranks[r];
      own.late_ns += computing[r];
      if (computing[r] < excess_max / 2) continue;
      ++own.late;
      own.present_ns += static_cast<float>(computation);
      if (largest && w.largest_late.size() < largest_late_max) w.largest_late.push_back(static_cast<int32_t>(r));
      own.idle_ns += static_cast<float>(std::clamp<double>(gaps.last_ns[r] - idle_middle, 0, computing[r]));
      // Queues of one kind of round differ: what is more in one is less in another, unless the rank is behind in all.
      const double elsewhere_ns = p.gap_ns(e.cells[r]) - gaps.own_ns[r];
      const double queued = queued_ns(b, r, e.cells[r], computing[r], elsewhere_ns);
      if (!std::isnan(queued)) own.queued_ns += static_cast<float>(queued);
    }
  }
  if (e.links.empty()) return;
  const Links links = match_links(comm, e);
  if (links.empty()) return;
  w.staged_ns += communication;
  add_waits(links, b.edges, factor, begun, w);
}

void SlowDetector::add(const Communicator& comm, KindBaseline& b, const RoundEntry& e, const Signature& s, Parts& p,
                       Nanoseconds now_ns) {
  const bool configured = !b.ready && settings_.baseline_init_ms > 0;
  if (!b.ready && !configured) {
    if (learns_first(b, p.t_max_ns)) learn(comm, b, e, p, now_ns);
    baselines_.learn_first(b, p.t_max_ns, p.skew_ns, p.comm_ns, now_ns);
    return;
  }
  SlowWindow& w = slice_;
  const double usual_ns = configured ? settings_.baseline_init_ms * 1e6 : b.max_ns.mean();
  if (configured && b.comm_ns.samples() == 0) b.comm_ns = Spread(usual_ns, 0, 1);
  const double lost_ns = p.t_max_ns - usual_ns;
  const bool slow =
      lost_ns > settings_.slow_round_min * usual_ns && lost_ns > settings_.slow_spread_factor * b.max_ns.deviation();
  ++w.rounds;
  w.comm_time_ns += p.t_max_ns;
  w.total_ns += p.total_ns();
  if (p.t_max_ns - p.t_min_ns > w.worst.range_ns)
    w.worst = {p.t_max_ns - p.t_min_ns, p.t_max_ns, p.t_min_ns, usual_ns};
  if (b.ready) baselines_.learn_habit(b, lost_ns, slow);
  if (slow) {
    if (w.slow_rounds++ == 0) {
      w.first_slow_op = e.op;
      w.first_slow_replay = e.replay;
      w.first_slow_ns = now_ns;
      w.signature = s;
    }
    w.lost_ns += lost_ns;
    w.base_ns += usual_ns;
    if (b.doubtful) w.doubtful_ns += lost_ns;
    blame(comm, b, e, p, now_ns);
    return;
  }
  if (configured) {
    learn(comm, b, e, p, now_ns);
    baselines_.learn_first(b, p.t_max_ns, p.skew_ns, p.comm_ns, now_ns);
    return;
  }
  const auto slice = static_cast<uint64_t>(now_ns / slice_ns());
  if (b.learnt_slice != slice) b.learnt_slice = slice, b.learnt = 0;
  if (b.learnt++ >= learnt_per_slice) return;
  b.max_ns.add(p.t_max_ns);
  b.skew_ns.add(p.skew_ns);
  b.comm_ns.add(p.comm_ns);
  learn(comm, b, e, p, now_ns);
}

void SlowDetector::add(const Communicator& comm, const RoundEntry& e, Nanoseconds now_ns) {
  if (slice_.started_ns == 0) slice_.started_ns = now_ns;
  const Signature* s = e.signature();
  if (!comm.rank_count_known() || comm.rank_count() < 2 || e.mismatch_ns != 0 || !s) return;
  if (e.cells.size() < static_cast<size_t>(comm.rank_count())) return;
  if (comm.is_barrier(*s)) return;
  Parts p;
  for (const RoundCell& c : e.cells) {
    p.kernel_operations = std::max(p.kernel_operations, c.kernel_operations);
    if (!c.reported || !c.timed) continue;
    const auto duration = static_cast<double>(c.duration_ns()), gap = static_cast<double>(c.gap_ns);
    ++p.timed;
    p.t_max_ns = std::max(p.t_max_ns, duration);
    p.t_min_ns = std::min(p.t_min_ns, duration);
    p.gap_min_ns = std::min(p.gap_min_ns, gap);
    p.gap_max_ns = std::max(p.gap_max_ns, gap);
  }
  // A rank that is not measured may hide the cause, but not the loss.
  const size_t n = e.cells.size();
  if (p.timed < std::max<size_t>(2, (n + 1) / 2)) return;
  p.gaps_known = p.gap_min_ns >= 0;
  p.set_skew(p.gaps_known ? p.gap_max_ns - p.gap_min_ns : p.t_max_ns - p.t_min_ns);
  RoundKind kind = kind_of(*s);
  kind.replayed = e.replay != 0;
  kind.kernel_operations = p.kernel_operations;
  KindBaseline* b = baselines_.of(kind);
  if (!b || ++b->seen <= settings_.warmup_rounds) return;
  add(comm, *b, e, *s, p, now_ns);
}

bool SlowDetector::close(bool keep, Nanoseconds now_ns) {
  if (slice_.started_ns == 0) return false;
  const Nanoseconds length = slice_ns(), age = now_ns - slice_.started_ns;
  // Slices end on a common grid, so that communicators speak of the same time.
  const bool due = now_ns / length != slice_.started_ns / length && age >= length / 2;
  const uint64_t rounds_min = (settings_.slow_rounds_min + 1) / 2;
  constexpr int prolonged_max = 10;
  if (!due || (slice_.rounds < rounds_min && age < prolonged_max * length)) return false;
  SlowWindow closed;
  std::swap(closed, slice_);
  slice_.started_ns = now_ns;
  if (closed.rounds == 0) {
    slices_.clear();
    return false;
  }
  slices_.push_back(std::move(closed));
  while (slices_.size() > (keep ? slices_max : slices_of_window)) slices_.pop_front();
  return true;
}

SlowWindow SlowDetector::last_window() const {
  const std::deque<SlowWindow> last(slices_.size() > slices_of_window ? slices_.end() - slices_of_window : slices_.begin(),
                                    slices_.end());
  return merge(last);
}

void SlowDetector::drop_older() {
  while (slices_.size() > slices_of_window) slices_.pop_front();
}

bool SlowDetector::loses(const SlowWindow& w) const {
  const auto rounds = static_cast<double>(w.rounds);
  if (w.slow_rounds < settings_.slow_rounds_min || static_cast<double>(w.slow_rounds) < usual_part_min * rounds)
    return false;
  const double habit_ns = habit_factor * baselines_.habit().per_round_ns() * rounds;
  return w.lost_ns >= settings_.slow_lost_share_min * w.comm_time_ns + habit_ns &&
         w.lost_ns >= settings_.slow_total_share_min * w.total_ns;
}

}  // namespace ccld::decision
