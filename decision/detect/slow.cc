#include "decision/detect/slow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "decision/locate/paper.h"
#include "decision/locate/slow.h"

namespace ccld::decision {

// A round, taken apart.
struct RoundParts {
  double t_max_ns = 0, t_min_ns = 0;
  bool gaps_known = false;     // otherwise lateness is read from durations
  std::vector<double> gap_ns;  // by rank; only differences between ranks mean something
  double gap_median_ns = 0;
  double skew_ns = 0;  // largest minus smallest gap
  double comm_ns = 0;  // since the last start
};

struct EdgeIntervals {
  double ns[interval_count];
  bool known[interval_count] = {};
  bool one_clock = false;  // both ends on one machine
  double steps = 0;
  int net_device = -1;
};

namespace {

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const size_t middle = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + middle, v.end());
  const double high = v[middle];
  if (v.size() % 2 == 1) return high;
  return (high + *std::max_element(v.begin(), v.begin() + middle)) / 2;
}

double range(const std::vector<double>& v) {
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return v.empty() ? 0 : *high - *low;
}

bool comparable(const Communicator& comm, const RoundEntry& e) {
  if (!comm.rank_count_known() || comm.rank_count() < 2 || e.mismatch_ns != 0 || !e.signature()) return false;
  if (e.cells.size() < static_cast<size_t>(comm.rank_count())) return false;
  return std::all_of(e.cells.begin(), e.cells.end(), [](const RoundCell& c) { return c.reported && c.timed; });
}

RoundParts take_apart(const RoundEntry& e) {
  RoundParts p;
  p.t_min_ns = INFINITY;
  p.gaps_known = true;
  for (const RoundCell& c : e.cells) {
    const auto duration = static_cast<double>(c.duration_ns());
    p.t_max_ns = std::max(p.t_max_ns, duration);
    p.t_min_ns = std::min(p.t_min_ns, duration);
    p.gaps_known &= c.gap_ns >= 0;
  }
  for (const RoundCell& c : e.cells)
    p.gap_ns.push_back(p.gaps_known ? static_cast<double>(c.gap_ns)
                                    : p.t_max_ns - static_cast<double>(c.duration_ns()));
  p.gap_median_ns = median(p.gap_ns);
  p.skew_ns = range(p.gap_ns);
  // The last to start has the least duration, unless it left early: then the skew of the gaps knows better.
  p.comm_ns = std::max(p.t_min_ns, p.t_max_ns - p.skew_ns);
  return p;
}

// The two ends of each connection, matched.
std::vector<std::pair<Edge, EdgeIntervals>> match_links(const Communicator& comm, const RoundEntry& e) {
  struct End {
    double gpu = 0, ready = 0, wire = 0, done = 0, steps = 0;
    int net_device = -1;
    void add(const LinkStages& l, int64_t origin) {
      const double total = steps + l.steps;
      const auto mix = [&](double& mean, int64_t value) {
        mean += value == 0 ? 0 : (static_cast<double>(value - origin) - mean) * l.steps / total;
      };
      mix(gpu, l.gpu_mean_realtime_ns);
      mix(ready, l.ready_mean_realtime_ns);
      mix(wire, l.wire_mean_realtime_ns);
      mix(done, l.done_mean_realtime_ns);
      missing_ready |= l.ready_mean_realtime_ns == 0;
      missing_wire |= l.wire_mean_realtime_ns == 0;
      missing_done |= l.done_mean_realtime_ns == 0;
      steps = total;
      net_device = l.net_device;
    }
    bool missing_ready = false, missing_wire = false, missing_done = false;
  };
  std::map<Edge, std::pair<End, End>> ends;
  if (e.links.empty()) return {};
  const int64_t origin = e.links.front().second.gpu_mean_realtime_ns;  // keeps sums of realtime precise
  for (const auto& [rank, l] : e.links) {
    if (l.steps == 0 || l.peer < 0 || l.gpu_mean_realtime_ns == 0) continue;
    const bool sends = l.direction == abi::Direction::send;
    auto& pair = ends[Edge{sends ? rank.value : l.peer, sends ? l.peer : rank.value, l.channel}];
    (sends ? pair.first : pair.second).add(l, origin);
  }
  std::vector<std::pair<Edge, EdgeIntervals>> out;
  for (const auto& [edge, pair] : ends) {
    const End &s = pair.first, &r = pair.second;
    if (s.steps == 0 || r.steps == 0) continue;
    EdgeIntervals i;
    const RankModel *a = comm.rank(Rank{edge.sender}), *b = comm.rank(Rank{edge.receiver});
    i.one_clock = a && b && a->process && b->process && a->process->id.boot_id == b->process->id.boot_id;
    i.steps = std::min(s.steps, r.steps);
    i.net_device = s.net_device;
    const auto set = [&](Interval which, double ns, bool known) {
      i.ns[static_cast<size_t>(which)] = ns;
      i.known[static_cast<size_t>(which)] = known;
    };
    const bool net = s.net_device >= 0 && r.net_device >= 0;
    set(Interval::posted_to_handed, s.wire - s.gpu, net && !s.missing_wire);
    set(Interval::awaited_to_handed, s.wire - r.ready, net && !s.missing_wire && !r.missing_ready);
    set(Interval::handed_to_sent, s.done - s.wire, net && !s.missing_done && !s.missing_wire);
    set(Interval::awaited_to_sent, s.done - r.ready, net && !s.missing_done && !r.missing_ready);
    set(Interval::sent_to_arrived, r.wire - s.done, net && !r.missing_wire && !s.missing_done);
    set(Interval::awaited_to_arrived, r.wire - r.ready, net && !r.missing_wire && !r.missing_ready);
    set(Interval::arrived_to_given, r.done - r.wire, net && !r.missing_done && !r.missing_wire);
    set(Interval::given_to_consumed, r.gpu - r.done, net && !r.missing_done);
    set(Interval::posted_to_consumed, r.gpu - s.gpu, s.net_device < 0 && r.net_device < 0);
    out.emplace_back(edge, i);
  }
  return out;
}

struct StageIntervals {
  Stage stage;
  Interval first, second;  // equal: only one
};
constexpr StageIntervals stage_intervals[stage_count] = {
    {Stage::sender_proxy, Interval::posted_to_handed, Interval::awaited_to_handed},
    {Stage::sender_nic, Interval::handed_to_sent, Interval::awaited_to_sent},
    {Stage::wire, Interval::sent_to_arrived, Interval::awaited_to_arrived},
    {Stage::receiver_proxy, Interval::arrived_to_given, Interval::arrived_to_given},
    {Stage::receiver_gpu, Interval::given_to_consumed, Interval::given_to_consumed},
    {Stage::gpu_to_gpu, Interval::posted_to_consumed, Interval::posted_to_consumed},
};

bool two_clocks(Interval i) {
  return i == Interval::awaited_to_handed || i == Interval::awaited_to_sent || i == Interval::sent_to_arrived;
}

}  // namespace

void SlowDetector::learn(KindBaseline& b, const RoundEntry& e, const RoundParts& p) {
  if (p.gaps_known || b.skew_ns.samples() == 0) b.skew_ns.add(p.skew_ns);
  b.comm_ns.add(p.comm_ns);
  b.excess_ns.resize(e.cells.size());
  b.queued_ns.resize(e.cells.size());
  for (size_t r = 0; r < e.cells.size(); ++r) {
    b.excess_ns[r].add(p.gap_ns[r] - p.gap_median_ns);
    if (e.cells[r].has_queued) b.queued_ns[r].add(static_cast<double>(e.cells[r].queued_ns));
  }
}

void SlowDetector::learn_edges(KindBaseline& b, const std::vector<std::pair<Edge, EdgeIntervals>>& edges) {
  for (const auto& [edge, intervals] : edges) {
    EdgeBaseline& base = b.edges[edge];
    for (size_t i = 0; i < interval_count; ++i)
      if (intervals.known[i]) base.interval_ns[i].add(intervals.ns[i]);
  }
}

void SlowDetector::blame(const Communicator& comm, const KindBaseline& b, const RoundEntry& e, const RoundParts& p,
                         const std::vector<std::pair<Edge, EdgeIntervals>>& edges) {
  SlowWindow& w = window_;
  const size_t n = e.cells.size();
  w.rank_lost_ns.resize(n);
  w.rank_queued_ns.resize(n);
  w.rank_late.resize(n);
  const double factor = settings_.slow_spread_factor;
  if (w.slow_rounds++ == 0) {
    w.first_slow_op = e.op;
    w.signature = *e.signature();
  }
  w.lost_ns += p.t_max_ns - b.t_base_ns;
  w.base_ns += b.t_base_ns;

  // Computation: gaps without the kernels of other communicators.
  std::vector<double> computing = p.gap_ns;
  if (p.gaps_known) {
    for (size_t r = 0; r < n; ++r) {
      const RankModel* m = comm.rank(Rank{static_cast<int32_t>(r)});
      if (!m || !m->process || m->process->memberships.size() < 2) continue;
      const RoundCell& c = e.cells[r];
      computing[r] -= static_cast<double>(m->process->kernels.busy_in_others_ns(
          comm.uid(), m->cuda_device, c.begin_device_ns - static_cast<uint64_t>(c.gap_ns), c.begin_device_ns));
    }
  }
  const double computing_median = median(computing);
  const double skew_lost = std::max(0.0, p.skew_ns - b.skew_ns.mean());
  double computation = std::min(skew_lost, std::max(0.0, range(computing) - b.skew_ns.mean()));
  if (computation < factor * b.skew_ns.deviation()) computation = 0;
  double communication = std::max(0.0, p.comm_ns - b.comm_ns.mean());
  if (communication < factor * b.comm_ns.deviation()) communication = 0;
  w.computation_ns += computation;
  w.elsewhere_ns += std::max(0.0, p.skew_ns - range(computing));
  w.communication_ns += communication;

  double excess_max = 0;
  std::vector<double> excess(n);
  for (size_t r = 0; r < n; ++r) {
    const Spread* healthy = r < b.excess_ns.size() ? &b.excess_ns[r] : nullptr;
    excess[r] = computing[r] - computing_median - (healthy ? healthy->mean() : 0);
    if (healthy && excess[r] < factor * healthy->deviation()) excess[r] = 0;
    excess_max = std::max(excess_max, excess[r]);
  }
  for (size_t r = 0; r < n; ++r) {
    if (computation == 0 || excess[r] <= 0) continue;
    w.rank_lost_ns[r] += excess[r];
    if (excess[r] < excess_max / 2) continue;
    ++w.rank_late[r];
    if (e.cells[r].has_queued && r < b.queued_ns.size() && b.queued_ns[r].samples() > 0)
      w.rank_queued_ns[r] += std::max(0.0, static_cast<double>(e.cells[r].queued_ns) - b.queued_ns[r].mean());
  }

  if (edges.empty()) return;
  w.staged_ns += communication;
  // An edge without a healthy past is compared with the others of this round.
  double typical[interval_count];
  for (size_t i = 0; i < interval_count; ++i) {
    std::vector<double> values;
    for (const auto& [edge, intervals] : edges)
      if (intervals.known[i]) values.push_back(intervals.ns[i]);
    typical[i] = median(std::move(values));
  }
  for (const auto& [edge, intervals] : edges) {
    auto healthy = b.edges.find(edge);
    EdgeLoss& loss = w.edges[edge];
    loss.steps += intervals.steps;
    loss.net_device = intervals.net_device;
    for (const StageIntervals& s : stage_intervals) {
      double least = INFINITY;
      for (Interval which : {s.first, s.second}) {
        const auto i = static_cast<size_t>(which);
        if (!intervals.known[i]) continue;
        const Spread* past = healthy != b.edges.end() ? &healthy->second.interval_ns[i] : nullptr;
        if (past && past->samples() >= 3) {
          const double growth = intervals.ns[i] - past->mean();
          least = std::min(least, growth < factor * past->deviation() ? 0 : growth);
        } else if (!two_clocks(which) || intervals.one_clock) {
          least = std::min(least, intervals.ns[i] - typical[i]);
        }
      }
      if (std::isfinite(least)) loss.waited_ns[static_cast<size_t>(s.stage)] += intervals.steps * std::max(0.0, least);
    }
  }
}

void SlowDetector::consider_worst(const Communicator& comm, const KindBaseline& b, const RoundEntry& e,
                                  const Signature& s) {
  for (const std::vector<Rank>& group :
       comparable_groups(comm, settings_.rules == RuleSet::paper ? s.algorithm : abi::Algorithm::ring)) {
    double high = 0, low = INFINITY;
    for (Rank r : group) {
      const auto d = static_cast<double>(e.cells[r.value].duration_ns());
      high = std::max(high, d);
      low = std::min(low, d);
    }
    if (group.empty() || high - low <= window_.worst.range_ns) continue;
    SlowWindow::Worst& w = window_.worst;
    w.range_ns = high - low;
    w.t_max_ns = high;
    w.t_min_ns = low;
    w.t_base_ns = b.t_base_ns;
    w.base_is_fixed = b.fixed;
    w.op = e.op;
    w.signature = s;
    w.durations_ns.clear();
    w.send_changes.clear();
    w.recv_changes.clear();
    for (const RoundCell& c : e.cells) {
      w.durations_ns.push_back(c.duration_ns());
      w.send_changes.push_back(c.send_changes);
      w.recv_changes.push_back(c.recv_changes);
    }
  }
}

void SlowDetector::add(const Communicator& comm, const RoundEntry& e, Nanoseconds now_ns) {
  if (window_.started_ns == 0) window_.started_ns = now_ns;
  if (good_ns_ == 0) good_ns_ = now_ns;
  if (!comparable(comm, e)) return;
  const Signature& s = *e.signature();
  if (comm.is_barrier(s, settings_.rules == RuleSet::paper)) return;
  RoundKind kind = kind_of(s);
  kind.replayed = e.replay != 0;
  for (const RoundCell& c : e.cells) kind.kernel_operations = std::max(kind.kernel_operations, c.kernel_operations);
  KindBaseline* b = baselines_.of(kind);
  if (!b || ++b->seen <= settings_.warmup_rounds) return;
  const RoundParts p = take_apart(e);
  const auto edges = match_links(comm, e);
  const bool judged = b->usable();
  const double ratio = judged ? (p.t_max_ns - b->t_base_ns) / b->t_base_ns : 0;
  if (judged) {
    ++window_.rounds;
    window_.comm_time_ns += p.t_max_ns;
    consider_worst(comm, *b, e, s);
    if (ratio > settings_.slow_theta) blame(comm, *b, e, p, edges);
  }
  // What is normal is learnt from rounds that took less than twice the base.
  if (ratio < 1) {
    learn(*b, e, p);
    learn_edges(*b, edges);
  }
  baselines_.count(*b, p.t_max_ns, now_ns);
}

SlowReport SlowDetector::advance(const Communicator& comm, bool open, Nanoseconds now_ns) {
  SlowReport report;
  if (window_.started_ns == 0) return report;
  const Nanoseconds length = seconds_to_ns(settings_.slow_window_s), age = now_ns - window_.started_ns;
  constexpr int prolonged_max = 10;
  if (age < length || (window_.rounds < settings_.slow_rounds_min && age < prolonged_max * length)) return report;

  SlowWindow window;
  std::swap(window, window_);
  window_.started_ns = now_ns;
  if (window.rounds == 0) return report;

  std::optional<Finding> finding;
  if (settings_.rules == RuleSet::paper) {
    if (window.worst.ratio() > settings_.slow_theta) finding = locate_slow_paper(comm, window, settings_);
  } else if (window.slow_rounds >= settings_.slow_rounds_min &&
             window.lost_ns >= settings_.slow_lost_share_min * window.comm_time_ns) {
    finding = locate_slow(comm, window, settings_);
  }
  if (!finding) {
    repeats_ = 0;
    recent_.clear();
    good_ns_ = now_ns;
    if (open && ++clean_ >= settings_.slow_clean_windows) {
      clean_ = 0;
      report.event = SlowEvent::resolve;
    }
    return report;
  }
  clean_ = 0;
  const bool paper = settings_.rules == RuleSet::paper;
  if (repeats_ == 0 || !(paper || same_cause(cause_, *finding))) {
    repeats_ = 0;
    recent_.clear();
  }
  ++repeats_;
  cause_ = *finding;
  recent_.push_back(std::move(window));
  constexpr size_t recent_max = 8;
  while (recent_.size() > recent_max) recent_.pop_front();
  report.onset_ns = good_ns_;
  if (repeats_ < settings_.slow_repeat) return report;
  if (!paper) {
    std::optional<Finding> of_all = locate_slow(comm, merge(recent_), settings_);
    if (of_all && same_cause(*of_all, *finding)) finding = std::move(of_all);
  }
  report.finding = *std::move(finding);
  // The same culprit once more than the repetition counter asks for; nobody at all stays a suspicion.
  const bool sure = paper || (repeats_ > settings_.slow_repeat && !report.finding.culprits.empty());
  report.event = sure ? SlowEvent::confirm : SlowEvent::suspect;
  return report;
}

SlowWindow merge(const std::deque<SlowWindow>& windows) {
  SlowWindow sum;
  const auto add_to = [](auto& into, const auto& from) {
    into.resize(std::max(into.size(), from.size()));
    for (size_t i = 0; i < from.size(); ++i) into[i] += from[i];
  };
  for (const SlowWindow& w : windows) {
    if (sum.slow_rounds == 0) {
      sum.first_slow_op = w.first_slow_op;
      sum.signature = w.signature;
    }
    sum.rounds += w.rounds;
    sum.slow_rounds += w.slow_rounds;
    sum.comm_time_ns += w.comm_time_ns;
    sum.lost_ns += w.lost_ns;
    sum.base_ns += w.base_ns;
    sum.computation_ns += w.computation_ns;
    sum.communication_ns += w.communication_ns;
    sum.elsewhere_ns += w.elsewhere_ns;
    sum.staged_ns += w.staged_ns;
    add_to(sum.rank_lost_ns, w.rank_lost_ns);
    add_to(sum.rank_queued_ns, w.rank_queued_ns);
    add_to(sum.rank_late, w.rank_late);
    for (const auto& [edge, loss] : w.edges) {
      EdgeLoss& into = sum.edges[edge];
      for (size_t s = 0; s < stage_count; ++s) into.waited_ns[s] += loss.waited_ns[s];
      into.steps += loss.steps;
      into.net_device = loss.net_device;
    }
    if (w.worst.range_ns > sum.worst.range_ns) sum.worst = w.worst;
  }
  return sum;
}

}  // namespace ccld::decision
