#include "decision/measure/slow_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "decision/measure/middle.h"
#include "decision/measure/wire_circles.h"

namespace ccld::decision {
namespace {

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

bool from_awaited(Interval i) {
  return i == Interval::awaited_to_handed || i == Interval::awaited_to_sent || i == Interval::awaited_to_arrived;
}

bool two_clocks(Interval i) {
  return i == Interval::awaited_to_handed || i == Interval::awaited_to_sent || i == Interval::sent_to_arrived;
}

constexpr uint8_t past_min = 3;        // samples
constexpr double slots = 8;            // steps that an end may be ahead of the other
constexpr double full_part_min = 0.9;  // of the slots

// How the begins and launches of its two ends change what steps of a connection wait, network or not.
struct EndsApart {
  double later_ns = 0;    // by how much the receiver comes later to the operation; negative: the sender
  double begun_ns = 0;    // by how much it begins later: it may have been kept in the operation before
  double waited_ns = 0;   // by how much the network had to wait for the receiver
  double awaited_ns = 0;  // by how much longer than usual the mean step was awaited before it could come
};

// A receiver whose kernel begins long after its launch has posted its receives: then it keeps nothing waiting in the
// network as long as slots in front of its GPU are free.
EndsApart ends_apart(const Edge& edge, const std::vector<RankBegin>& begins, const EdgeIntervals& i) {
  const auto ranks = static_cast<int32_t>(begins.size());
  if (edge.sender < 0 || edge.receiver < 0 || edge.sender >= ranks || edge.receiver >= ranks || i.steps <= 0) return {};
  const RankBegin& receiver = begins[edge.receiver];
  EndsApart apart;
  apart.later_ns = receiver.at_ns - begins[edge.sender].at_ns;
  if (!std::isfinite(apart.later_ns)) return {};
  apart.begun_ns = receiver.begun_ns - begins[edge.sender].begun_ns;
  if (!std::isfinite(apart.begun_ns)) apart.begun_ns = apart.later_ns;
  const bool launch_known = std::isfinite(receiver.queued_ns);
  const double later_ns = std::max(0.0, apart.later_ns);
  apart.awaited_ns = of_mean_ns(i, (launch_known ? receiver.queued_ns : later_ns) - apart.begun_ns);
  const auto in_front = static_cast<size_t>(Interval::given_to_consumed);
  const bool full = !launch_known || !i.known[in_front] || i.ns[in_front] >= full_part_min * of_mean_ns(i, later_ns);
  apart.waited_ns = full ? later_ns : std::clamp(later_ns - receiver.queued_ns, 0.0, later_ns);
  return apart;
}

void discount_late_end(const EndsApart& apart, EdgeIntervals& i) {
  if (apart.begun_ns > 0)
    for (Interval which : {Interval::given_to_consumed, Interval::posted_to_consumed})
      i.ns[static_cast<size_t>(which)] -= of_mean_ns(i, apart.begun_ns);
  if (apart.later_ns > 0) i.ns[static_cast<size_t>(Interval::posted_to_handed)] -= of_mean_ns(i, apart.waited_ns);
}

// A receiver that starts late leaves what was sent before on the wire, nobody knows how many steps. But none for longer
// than it was late, and behind a slow wire the sender cannot get rid of its steps. So much is sure of what seems to
// have been on the wire longer.
double sure_wire_ns(const EdgeIntervals& i, double growth_ns, double otherwise_ns) {
  const auto ns = [&](Interval which) {
    const auto n = static_cast<size_t>(which);
    return i.known[n] ? std::max(0.0, i.ns[n]) : INFINITY;
  };
  return std::max(growth_ns - otherwise_ns, ns(Interval::posted_to_handed) + ns(Interval::handed_to_sent));
}

// Receives that are posted before anything can come are awaited from then on: how long before changes with the
// launches, and is no wait. This is the interval as it would be at the usual ones. (It cannot become less than none;
// the difference of two clocks is what healthy steps seem to spend on the wire.)
double at_usual_launch_ns(Interval which, const EdgeIntervals& i, const EdgeBaseline& healthy, double awaited_ns) {
  const auto n = static_cast<size_t>(which), sent = static_cast<size_t>(Interval::sent_to_arrived);
  if (!from_awaited(which) || healthy.samples[n] < past_min) return i.ns[n];
  const bool apart = two_clocks(which) && !i.one_clock;
  if (apart && healthy.samples[sent] < past_min) return i.ns[n] - awaited_ns;
  const double usual_ns = healthy.mean_ns[n] + (apart ? healthy.mean_ns[sent] : 0);
  return i.ns[n] - std::max(awaited_ns, -std::max(0.0, usual_ns));
}

// Where two clocks cannot be compared for want of a healthy past, each end still bounds what it did not cause: the
// sender delays no step that nobody awaits, and a slow wire fills up, so that the sender cannot get rid of its steps.
double one_clock_bound(Stage stage, const EdgeIntervals& i, const EdgeBaseline* healthy) {
  const auto known = [&](Interval which) { return i.known[static_cast<size_t>(which)]; };
  const auto ns = [&](Interval which) { return std::max(0.0, i.ns[static_cast<size_t>(which)]); };
  const auto comparable = [&](Interval which) {
    return known(which) && (i.one_clock || (healthy && healthy->samples[static_cast<size_t>(which)] >= past_min));
  };
  const bool sends = stage == Stage::sender_proxy || stage == Stage::sender_nic;
  const Interval awaited = stage == Stage::sender_proxy ? Interval::awaited_to_handed : Interval::awaited_to_sent;
  if (sends && !comparable(awaited) && known(Interval::awaited_to_arrived)) return ns(Interval::awaited_to_arrived);
  if (stage == Stage::wire && !comparable(Interval::sent_to_arrived) && known(Interval::posted_to_handed) &&
      known(Interval::handed_to_sent))
    return ns(Interval::posted_to_handed) + ns(Interval::handed_to_sent);
  return INFINITY;
}

// Nothing arrives sooner than usual: where it seems so, clocks have drifted since, as far as that at least. The other
// way around this looks like a slow wire.
double drift_ns(const Links& links, const absl::flat_hash_map<Edge, EdgeBaseline>& past_edges) {
  const auto sent = static_cast<size_t>(Interval::sent_to_arrived);
  double most_ns = 0;
  for (const auto& [edge, i] : links) {
    const auto healthy = past_edges.find(edge);
    if (!i.known[sent] || i.one_clock || healthy == past_edges.end() || healthy->second.samples[sent] < past_min)
      continue;
    most_ns = std::max(most_ns, healthy->second.mean_ns[sent] - i.ns[sent]);
  }
  return most_ns;
}

}  // namespace

double of_mean_ns(const EdgeIntervals& i, double ns) {
  return std::clamp((slots - i.first_step) / (i.steps - i.first_step), 0.0, 1.0) * ns;
}

Links match_links(const LinkRows& rows, double round_ns, absl::FunctionRef<int(Rank)> machine) {
  struct End {
    double gpu = 0, ready = 0, wire = 0, done = 0, away_ns = 0, steps = 0;
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
      away_ns = std::max(away_ns, l.proxy_away_us * 1e3);
      missing_ready |= l.ready_mean_realtime_ns == 0;
      missing_wire |= l.wire_mean_realtime_ns == 0;
      missing_done |= l.done_mean_realtime_ns == 0;
      steps = total;
      first_step = std::min<double>(first_step, l.first_step);
      net_device = l.net_device;
    }
    double first_step = INFINITY;
    bool missing_ready = false, missing_wire = false, missing_done = false;
  };
  std::map<Edge, std::pair<End, End>> ends;
  if (rows.empty()) return {};
  const int64_t origin = rows.front().second.gpu_mean_realtime_ns;  // keeps sums of realtime precise
  for (const auto& [rank, l] : rows) {
    if (l.steps == 0 || l.peer < 0 || l.gpu_mean_realtime_ns == 0) continue;
    const bool sends = l.direction == abi::Direction::send;
    auto& pair = ends[Edge{sends ? rank.value : l.peer, sends ? l.peer : rank.value, l.channel}];
    (sends ? pair.first : pair.second).add(l, origin);
  }
  Links out;
  for (const auto& [edge, pair] : ends) {
    const End &s = pair.first, &r = pair.second;
    if (s.steps == 0 || r.steps == 0) continue;
    EdgeIntervals i;
    i.sender_machine = machine(Rank{edge.sender});
    i.receiver_machine = machine(Rank{edge.receiver});
    i.one_clock = i.sender_machine >= 0 && i.sender_machine == i.receiver_machine;
    i.steps = std::min(s.steps, r.steps);
    i.first_step = std::min({s.first_step, r.first_step, i.steps - 1});
    i.net_device = s.net_device;
    const auto set = [&](Interval which, double ns, bool known) {
      i.ns[static_cast<size_t>(which)] = ns;
      i.known[static_cast<size_t>(which)] = known;
    };
    const bool net = s.net_device >= 0 && r.net_device >= 0;
    i.round_ns = round_ns;
    if (net && round_ns > 0) {
      i.sender_away_part = std::min(1.0, s.away_ns / round_ns);
      i.receiver_away_part = std::min(1.0, r.away_ns / round_ns);
    }
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

void learn_waits(const Edge& edge, const EdgeIntervals& i, const std::vector<RankBegin>& begins,
                 EdgeBaseline& healthy) {
  const double awaited_ns = ends_apart(edge, begins, i).awaited_ns;
  double ns[interval_count];
  for (size_t n = 0; n < interval_count; ++n)
    if (i.known[n]) ns[n] = at_usual_launch_ns(static_cast<Interval>(n), i, healthy, awaited_ns);
  for (size_t n = 0; n < interval_count; ++n)
    if (i.known[n]) healthy.add(static_cast<Interval>(n), ns[n]);
  healthy.add_away(i.sender_away_part, i.receiver_away_part);
}

void add_waits(const Links& all, const absl::flat_hash_map<Edge, EdgeBaseline>& past_edges, double spread_factor,
               const std::vector<RankBegin>& begins, SlowWindow& w) {
  Links links = all;
  std::vector<EndsApart> apart;
  for (auto& [edge, intervals] : links) {
    apart.push_back(ends_apart(edge, begins, intervals));
    discount_late_end(apart.back(), intervals);
  }
  WireCircles circles(all);
  const double drifted_ns = drift_ns(all, past_edges);
  double typical[interval_count];
  for (size_t i = 0; i < interval_count; ++i) {
    std::vector<double> values;
    for (const auto& [edge, intervals] : links)
      if (intervals.known[i]) values.push_back(intervals.ns[i]);
    typical[i] = median(values);
  }
  for (size_t n = 0; n < links.size(); ++n) {
    const auto& [edge, intervals] = links[n];
    const auto healthy = past_edges.find(edge);
    EdgeLoss& loss = w.edges[edge];
    loss.steps += intervals.steps;
    ++loss.rounds;
    loss.net_device = intervals.net_device;
    const bool past = healthy != past_edges.end();
    const double sender_part = intervals.sender_away_part - (past ? healthy->second.sender_away_part : 0),
                 receiver_part = intervals.receiver_away_part - (past ? healthy->second.receiver_away_part : 0);
    loss.sender_away_ns += sender_part * intervals.round_ns;
    loss.receiver_away_ns += receiver_part * intervals.round_ns;
    const auto sent = static_cast<size_t>(Interval::sent_to_arrived);
    double sent_ns = INFINITY;
    if (intervals.known[sent]) {
      if (!intervals.one_clock) sent_ns = circles.around_ns(intervals);
      if (healthy != past_edges.end() && healthy->second.samples[sent] >= past_min)
        sent_ns = std::min(sent_ns, std::max(0.0, intervals.ns[sent] - healthy->second.mean_ns[sent]));
      if (std::isfinite(sent_ns)) loss.sent_ns += intervals.steps * sent_ns;
    }
    for (const StageIntervals& s : stage_intervals) {
      double least = INFINITY;
      for (Interval which : {s.first, s.second}) {
        const auto i = static_cast<size_t>(which);
        if (!intervals.known[i]) continue;
        if (healthy != past_edges.end() && healthy->second.samples[i] >= past_min) {
          const double growth =
              at_usual_launch_ns(which, intervals, healthy->second, apart[n].awaited_ns) - healthy->second.mean_ns[i];
          least = std::min(least, growth < spread_factor * healthy->second.deviation_ns[i] ? 0 : growth);
        } else if (!two_clocks(which) || intervals.one_clock) {
          least = std::min(least, intervals.ns[i] - typical[i]);
        }
      }
      least = std::min(least,
                       one_clock_bound(s.stage, intervals, healthy == past_edges.end() ? nullptr : &healthy->second));
      if (s.stage == Stage::wire) least = std::min(least, sent_ns);
      const double otherwise_ns = apart[n].waited_ns + (intervals.one_clock ? 0 : drifted_ns);
      if (s.stage == Stage::wire && otherwise_ns > 0 && std::isfinite(least))
        loss.unsure_wire_ns += intervals.steps * std::max(0.0, least - sure_wire_ns(intervals, least, otherwise_ns));
      if (std::isfinite(least)) loss.waited_ns[static_cast<size_t>(s.stage)] += intervals.steps * std::max(0.0, least);
    }
  }
}

}  // namespace ccld::decision
