#include "decision/measure/link_intervals.h"

#include <algorithm>
#include <map>

namespace ccld::decision {
namespace {

bool of_both_ends(Interval i) {
  return i == Interval::awaited_to_handed || i == Interval::awaited_to_sent || i == Interval::sent_to_arrived;
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
    i.two_clocks = i.sender_machine < 0 || i.sender_machine != i.receiver_machine;
    i.steps = std::min(s.steps, r.steps);
    i.first_step = std::min({s.first_step, r.first_step, i.steps - 1});
    i.same_steps = s.steps == r.steps && s.first_step == r.first_step;
    i.net_device = s.net_device;
    const auto set = [&](Interval which, double ns, bool known) {
      i.ns[static_cast<size_t>(which)] = known ? ns : NAN;
      i.known[static_cast<size_t>(which)] = known && !(i.two_clocks && of_both_ends(which));
    };
    const bool net = s.net_device >= 0 && r.net_device >= 0;
    i.round_ns = round_ns;
    i.sent_realtime_ns = static_cast<double>(origin) + s.done;
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
    if (i.known[static_cast<size_t>(Interval::sent_to_arrived)]) i.wire_at_least_ns = r.wire - s.done;
    out.emplace_back(edge, i);
  }
  return out;
}

}  // namespace ccld::decision
