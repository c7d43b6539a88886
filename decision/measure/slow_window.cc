#include "decision/measure/slow_window.h"

#include <algorithm>

namespace ccld::decision {

SlowWindow merge(const std::deque<SlowWindow>& windows) {
  SlowWindow sum;
  for (const SlowWindow& w : windows) {
    if (sum.started_ns == 0) sum.started_ns = w.started_ns;
    if (sum.slow_rounds == 0 && w.slow_rounds > 0) {
      sum.first_slow_op = w.first_slow_op;
      sum.first_slow_replay = w.first_slow_replay;
      sum.first_slow_ns = w.first_slow_ns;
      sum.signature = w.signature;
    }
    sum.rounds += w.rounds;
    sum.slow_rounds += w.slow_rounds;
    sum.total_ns += w.total_ns;
    sum.comm_time_ns += w.comm_time_ns;
    sum.lost_ns += w.lost_ns;
    sum.doubtful_ns += w.doubtful_ns;
    sum.base_ns += w.base_ns;
    sum.computation_ns += w.computation_ns;
    sum.communication_ns += w.communication_ns;
    sum.elsewhere_ns += w.elsewhere_ns;
    sum.unknown_ns += w.unknown_ns;
    sum.staged_ns += w.staged_ns;
    if (w.largest_ns > sum.largest_ns) sum.largest_ns = w.largest_ns, sum.largest_late = w.largest_late;
    sum.ranks.resize(std::max(sum.ranks.size(), w.ranks.size()));
    for (size_t r = 0; r < w.ranks.size(); ++r) {
      sum.ranks[r].late_ns += w.ranks[r].late_ns;
      sum.ranks[r].queued_ns += w.ranks[r].queued_ns;
      sum.ranks[r].idle_ns += w.ranks[r].idle_ns;
      sum.ranks[r].unseen_ns += w.ranks[r].unseen_ns;
      sum.ranks[r].present_ns += w.ranks[r].present_ns;
      sum.ranks[r].late += w.ranks[r].late;
      sum.ranks[r].untimed += w.ranks[r].untimed;
    }
    for (const auto& [edge, loss] : w.edges) {
      EdgeLoss& into = sum.edges[edge];
      for (size_t s = 0; s < stage_count; ++s) into.waited_ns[s] += loss.waited_ns[s];
      into.sent_ns += loss.sent_ns;
      into.unsure_wire_ns += loss.unsure_wire_ns;
      into.sender_away_ns += loss.sender_away_ns;
      into.receiver_away_ns += loss.receiver_away_ns;
      into.steps += loss.steps;
      into.net_device = loss.net_device;
    }
    if (w.worst.range_ns > sum.worst.range_ns) sum.worst = w.worst;
  }
  return sum;
}

}  // namespace ccld::decision
