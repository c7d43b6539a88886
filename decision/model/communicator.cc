#include "decision/model/communicator.h"

#include <algorithm>

#include "decision/model/names.h"

namespace ccld::decision {
namespace {

// A rank can finish these only after every rank has begun: each gives data that all need.
bool needs_everybody(abi::Function f) {
  switch (f) {
    case abi::Function::all_reduce:
    case abi::Function::all_gather:
    case abi::Function::reduce_scatter:
    case abi::Function::all_to_all: return true;
    default: return false;
  }
}

}  // namespace

RankModel* Communicator::member(Rank rank, ProcessModel& process, Nanoseconds now_ns) {
  if (rank.value < 0 || static_cast<uint64_t>(rank.value) >= settings_.ranks_max) return nullptr;
  if (rank_count_ > 0 && rank.value >= rank_count_) return nullptr;
  while (ranks_.size() <= static_cast<size_t>(rank.value)) {
    ranks_.emplace_back();
    ranks_.back().rank = Rank{static_cast<int32_t>(ranks_.size()) - 1};
  }
  RankModel& r = ranks_[rank.value];
  if (!r.process) {
    r.process = &process;
    process.memberships.push_back({uid_, rank});
    if (r.host.empty()) r.host = process.id.host;
    if (job_.empty()) job_ = process.job;
  } else if (r.process != &process) {
    return nullptr;  // two processes claim one rank: the first keeps it
  }
  heard_ns_ = std::max(heard_ns_, now_ns);
  dirty_ = true;
  return &r;
}

void Communicator::recount(RankModel& r, bool was) {
  const bool is = r.in_flight();
  ranks_in_flight_ += static_cast<int>(is) - static_cast<int>(was);
  entered_max_ = std::max(entered_max_, r.entered);
}

void Communicator::moved(RankModel& r, Nanoseconds at_ns) {
  r.moved_ns = std::max(r.moved_ns, at_ns);
  moved_ns_ = std::max(moved_ns_, at_ns);
}

void Communicator::finished(const RankModel&, OpSeq op, const Signature& s) {
  if (needs_everybody(s.function) && (s.flags & abi::op_no_kernel) == 0) begun_by_all_ = std::max(begun_by_all_, op);
}

void Communicator::up(const CommUp& m, ProcessModel& process, Nanoseconds now_ns) {
  if (m.rank_count <= 0 || static_cast<uint64_t>(m.rank_count) > settings_.ranks_max || m.rank.value >= m.rank_count)
    return;
  if (rank_count_ == 0) {
    rank_count_ = m.rank_count;
    ranks_.reserve(rank_count_);
    while (ranks_.size() < static_cast<size_t>(rank_count_)) {
      ranks_.emplace_back();
      ranks_.back().rank = Rank{static_cast<int32_t>(ranks_.size()) - 1};
    }
    history_.set_rank_count(rank_count_);
  }
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  if (!m.name.empty()) name_ = m.name;
  r->host = m.host.empty() ? process.id.host : m.host;
  r->node = m.node;
  r->local_rank = m.local_rank;
  r->cuda_device = m.cuda_device;
  r->gpu_bus_id = m.gpu_bus_id;
  r->channels = m.channels;
  r->connections = m.connections;
  if (!r->up) moved(*r, now_ns);
  r->up = true;
}

void Communicator::down(const CommDown& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  const bool was = r->in_flight();
  r->state = std::max(r->state, m.state);
  r->entered = std::max(r->entered, m.last_entered);
  if (!r->down) {
    r->down = true;
    ++ranks_down_;
    moved(*r, now_ns);
  }
  // A rank that destroyed its communicator in good order has finished what it entered.
  if (r->state == abi::CommState::finalized || r->state == abi::CommState::destroyed) r->completed = r->entered;
  recount(*r, was);
}

void Communicator::rounds(const Rounds& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  const bool was = r->in_flight();
  const bool shares_gpu = process.memberships.size() > 1;
  for (const Round& round : m.rounds) {
    RoundCell cell;
    cell.timed = round.has_device_times() && round.begin_device_ns != 0 && (round.flags & round_aborted) == 0;
    if (cell.timed) {
      cell.begin_device_ns = round.begin_device_ns;
      cell.end_device_ns = round.end_device_ns;
      if (r->last_round_end_ns != 0 && r->last_round.value + 1 == round.op.value &&
          round.begin_device_ns >= r->last_round_end_ns)
        cell.gap_ns = static_cast<Nanoseconds>(round.begin_device_ns - r->last_round_end_ns);
      if (round.launch_monotonic_ns != 0) {
        cell.queued_ns = static_cast<Nanoseconds>(round.begin_device_ns - round.launch_monotonic_ns);
        cell.has_queued = true;
      }
    }
    if (round.flags & round_counts_valid) {
      cell.send_steps = round.send_steps;
      cell.recv_steps = round.recv_steps;
    }
    cell.send_changes = round.send_changes;
    cell.recv_changes = round.recv_changes;
    if (round.op > r->last_round) {
      r->last_round = round.op;
      r->last_round_end_ns = cell.timed ? round.end_device_ns : 0;
      if (shares_gpu && cell.timed)
        process.kernels.add(uid_, r->cuda_device, round.begin_device_ns, round.end_device_ns);
    }
    history_.round(round.op, m.rank, round.signature, cell, now_ns);
    if (round.op > r->completed) {
      r->completed = round.op;
      const Nanoseconds began =
          process.clock.to_local(std::max(round.enter_monotonic_ns, round.launch_monotonic_ns), now_ns);
      moved(*r, std::min(now_ns, began + (cell.timed ? cell.duration_ns() : 0)));
    }
    r->entered = std::max(r->entered, round.op);
    r->launched = std::max(r->launched, round.op);
    finished(*r, round.op, round.signature);
  }
  for (const LinkStages& l : m.links) history_.link(m.rank, l);
  recount(*r, was);
}

void Communicator::in_flight(const InFlight& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  if (r->has_last && m.sample_monotonic_ns <= r->last.sample_monotonic_ns) return;  // late or repeated
  const bool was = r->in_flight();
  const Nanoseconds sampled_ns = process.clock.to_local(m.sample_monotonic_ns, now_ns);
  for (const InFlightOp& op : m.operations) history_.signature(op.op, m.rank, op.signature, now_ns);
  const bool news =
      !r->has_last || m.movement != r->last.movement || m.entered > r->entered || m.completed > r->completed;
  r->sampled_ns = sampled_ns;
  r->entered = std::max({r->entered, m.entered, m.completed});
  r->launched = std::max(r->launched, m.launched);
  if (m.completed > r->completed) {
    r->completed = m.completed;
    if (const Signature* s = history_.signature_of(m.completed, m.rank)) finished(*r, m.completed, *s);
  }
  r->state = std::max(r->state, m.state);
  if (news) moved(*r, sampled_ns - static_cast<Nanoseconds>(m.moved_age_ms) * ns_per_ms);
  r->last = m;
  r->has_last = true;
  recount(*r, was);
}

OpSeq Communicator::completed_min() const {
  OpSeq least;
  bool any = false;
  for (const RankModel& r : ranks_) {
    if (!r.process || r.left()) continue;
    if (!any || r.completed < least) least = r.completed;
    any = true;
  }
  return least;
}

bool Communicator::is_barrier(const Signature& s, bool paper) const {
  if (s.function != abi::Function::all_reduce) return false;
  const unsigned size = datatype_bytes(s.datatype);
  if (size == 0 || s.count > settings_.barrier_bytes_max) return false;
  const uint64_t bytes = s.count * size;
  return paper ? bytes < settings_.barrier_bytes_max : bytes <= settings_.barrier_bytes_max;
}

Signature Communicator::signature(OpSeq op) const {
  if (const RoundEntry* e = history_.find(op))
    if (const Signature* s = e->signature()) return *s;
  for (const RankModel& r : ranks_)
    for (const InFlightOp& o : r.last.operations)
      if (o.op == op) return o.signature;
  return {};
}

}  // namespace ccld::decision
