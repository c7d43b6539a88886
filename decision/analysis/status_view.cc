#include "decision/analysis/status_view.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "decision/detect/oldest_operation.h"

namespace ccld::decision {

CommStatus comm_status(const Communicator& c, const ProcessTable& processes, Nanoseconds now_ns) {
  CommStatus s;
  s.comm = c.uid();
  s.job = c.job();
  s.name = c.name();
  s.rank_count = c.rank_count();
  s.entered_max = c.entered_max();
  s.completed_min = c.completed_min();
  s.rounds = c.history().rounds();
  s.replays = c.replays().rounds();
  s.parent = c.parent();
  s.in_flight = c.ranks_in_flight() > 0;
  size_t known = 0;  // rank_count is what somebody claimed
  for (const RankModel& r : c.ranks()) known += r.process ? 1 : 0;
  s.ranks.reserve(known);
  std::vector<uint64_t> waiting_channels;
  // The same operation that an incident names. Where nobody talks any more, the last words are all there is.
  const std::optional<OpSeq> oldest_told = s.in_flight ? oldest_operation(c, processes) : std::nullopt;
  if (oldest_told) s.oldest_op = *oldest_told;
  Nanoseconds oldest_ns = 0;
  for (const RankModel& r : c.ranks()) {
    if (!r.process) continue;
    ++s.ranks_seen;
    RankStatus rank;
    rank.rank = r.rank;
    rank.host = r.host;
    rank.pid = r.process->id.pid;
    rank.cuda_device = r.cuda_device;
    rank.gpu_bus_id = r.gpu_bus_id;
    rank.entered = r.entered;
    rank.launched = r.launched;
    rank.completed = r.completed;
    rank.telemetry_age_ns = now_ns - r.process->heard_ns;
    rank.moved_age_ns = now_ns - r.moved_ns;
    rank.up = r.up && !r.down;
    if (rank.up) s.telemetry_age_ns = std::max(s.telemetry_age_ns, rank.telemetry_age_ns);
    rank.process_state = r.process->state;
    rank.watched = !r.not_watched && !r.process->probe_stopped;
    rank.p2p_in_flight = std::max<uint32_t>(r.last.p2p_total, static_cast<uint32_t>(r.last.p2p.size()));
    if (!r.last.p2p.empty())
      rank.p2p_age_ns = static_cast<Nanoseconds>(r.last.p2p.front().enter_age_ms) * ns_per_ms + (now_ns - r.sampled_ns);
    rank.p2p_rounds = r.p2p_ended ? r.p2p_ended->count : 0;
    const OpSeq next = r.in_flight() ? r.oldest_in_flight() : OpSeq{};
    for (const InFlightOp& o : r.last.operations)
      if (o.op == next && o.replay == 0) rank.begun = o.begun;
    for (const InFlightOp& o : r.last.operations)
      if (o.replay != 0 && o.begun && rank.replay == RoundKey{}) rank.replay = o.key();
    s.p2p_in_flight += rank.p2p_in_flight;
    s.p2p_rounds += rank.p2p_rounds;
    s.p2p_age_ns = std::max(s.p2p_age_ns, rank.p2p_age_ns);
    s.ranks_not_watched += rank.watched ? 0 : 1;
    s.hidden |= r.hidden;
    s.ranks.push_back(std::move(rank));
    if (known <= waiting_channels_ranks_max) waiting_channels.push_back(r.in_flight() ? r.waiting_channels : 0);
    if (!r.in_flight()) continue;
    if (const OpSeq oldest = r.oldest_in_flight();
        !oldest_told && (s.oldest_op == OpSeq{} || oldest < s.oldest_op))
      s.oldest_op = oldest, oldest_ns = 0;
    for (const InFlightOp& o : r.last.operations)
      if (o.op == s.oldest_op)
        oldest_ns =
            std::max(oldest_ns, static_cast<Nanoseconds>(o.enter_age_ms) * ns_per_ms + (now_ns - r.sampled_ns));
  }
  if (std::any_of(waiting_channels.begin(), waiting_channels.end(), [](uint64_t c) { return c != 0; }))
    s.waiting_channels = std::move(waiting_channels);
  if (s.in_flight) {
    s.oldest_signature = c.signature(s.oldest_op);
    s.oldest_age_ns = oldest_ns;
  }
  return s;
}

ProcessStatus process_status(const ProcessModel& p, Nanoseconds now_ns) {
  ProcessStatus s;
  s.process = p.id;
  s.job = p.job;
  s.telemetry_age_ns = now_ns - p.heard_ns;
  s.has_finished = p.has_finished();
  s.batches = p.batches;
  s.lost_batches = p.lost_batches();
  s.undelivered_batches = p.undelivered_batches;
  s.health = p.health;
  s.metrics = p.metrics;
  s.net_queues = p.net_queues;
  for (const NetQueue& q : std::vector<NetQueue>(p.net_queues)) {
    if (q.in_flight + q.recv_in_flight > 0) ++s.net.queues_in_flight;
    if (stuck_for_ns(q) > 0) ++s.net.queues_stuck;
    s.net.requests_in_flight += q.in_flight;
  }
  if (p.control) s.control = *p.control;
  s.probe_stopped = p.probe_stopped;
  return s;
}

}  // namespace ccld::decision
