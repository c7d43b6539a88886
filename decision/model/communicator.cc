#include "decision/model/communicator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "decision/model/names.h"
#include "decision/model/signature.h"
#include "decision/model/snapshot.h"

namespace ccld::decision {
namespace {

// Calls of distinct peers that one rank is remembered to have ended; a pipeline has a handful, an all-to-all one per
// rank.
constexpr size_t p2p_peers_max = 1 << 16;

// How many rows from `first` on describe the same kernel.
size_t kernel_rows(const std::vector<Round>& rounds, size_t first) {
  const Round& a = rounds[first];
  size_t end = first + 1;
  if ((a.flags & round_shared_kernel) == 0) return 1;
  while (end < rounds.size() && (rounds[end].flags & round_shared_kernel) != 0 && rounds[end].replay == a.replay &&
         rounds[end].begin_device_ns == a.begin_device_ns && rounds[end].end_device_ns == a.end_device_ns)
    ++end;
  return end - first;
}

OpSeq oldest_shown(const InFlight& m) {
  const auto shows = [](const InFlightOp& o) { return o.replay == 0 && !o.only_captured() && !o.ended_since; };
  const auto oldest = std::find_if(m.operations.begin(), m.operations.end(), shows);  // oldest first
  return oldest == m.operations.end() ? OpSeq{} : oldest->op;
}

bool is_unseen(const Round& r) {
  constexpr uint8_t unseen = round_no_kernel | round_not_measured;
  return (r.flags & unseen) == unseen && (r.signature.flags & abi::op_captured) == 0;
}

bool is_timed(const Round& r) {
  return r.has_device_times() && r.begin_device_ns != 0 && (r.flags & round_aborted) == 0;
}

bool is_timed(const P2pRound& r) {
  return (r.flags & (round_no_kernel | round_lapped | round_not_measured | round_aborted)) == 0 &&
         r.begin_device_ns != 0 && r.end_device_ns >= r.begin_device_ns;
}

}  // namespace

absl::Span<const LaneState> RankModel::lanes_of(int channel) const {
  // Mostly one for each direction: then their place is known.
  constexpr size_t usual = 2;
  const std::vector<LaneState>& lanes = last.lanes;
  if (const size_t at = usual * static_cast<size_t>(channel);
      channel >= 0 && at + usual <= lanes.size() && lanes[at].channel == channel && lanes[at + 1].channel == channel &&
      (at == 0 || lanes[at - 1].channel < channel) &&
      (at + usual == lanes.size() || lanes[at + usual].channel > channel))
    return {lanes.data() + at, usual};
  const auto [first, end] = std::equal_range(last.lanes.begin(), last.lanes.end(), channel, ByChannel());
  return {last.lanes.data() + (first - last.lanes.begin()), static_cast<size_t>(end - first)};
}

OpSeq RankModel::oldest_in_flight() const {
  OpSeq op{completed.value + 1};
  for (const InFlightOp& o : last.operations)  // oldest first
    if (o.op == op && o.only_captured()) ++op.value;
  return op;
}

bool RankModel::has_ended(Rank peer, abi::Direction direction, uint64_t pair_seq, uint32_t replay) const {
  if (!p2p_ended) return false;
  if (replay != 0) {
    const auto newest = p2p_ended->replays.find({peer.value, direction, pair_seq});
    return newest != p2p_ended->replays.end() && newest->second >= replay;
  }
  const auto newest = p2p_ended->calls.find({peer.value, direction});
  return newest != p2p_ended->calls.end() && newest->second >= pair_seq;
}

RankModel* Communicator::member(Rank rank, ProcessModel& process, Nanoseconds now_ns) {
  if (rank.value < 0 || static_cast<uint64_t>(rank.value) >= settings_.ranks_max) return nullptr;
  if (rank_count_ > 0 && rank.value >= rank_count_) return nullptr;
  const auto index = static_cast<size_t>(rank.value);
  RankModel* const known = ranks_.find(index);
  if (!known && !take_room(ranks_.room_for(index))) return nullptr;
  if (ranks_.size() <= index) ranks_.set_size(index + 1, false);
  RankModel& r = known ? *known : ranks_.at(index);
  if (!r.process) {
    r.process = &process;
    process.memberships.push_back({uid_, rank});
    if (r.host.empty()) r.host = names_.of(process.id.host, r.names_brought);
    if (job_.empty()) job_ = process.job;
  } else if (r.process != &process) {
    return nullptr;  // two processes claim one rank: the first keeps it
  }
  heard_ns_ = std::max(heard_ns_, now_ns);
  if (first_heard_ns_ == 0) first_heard_ns_ = now_ns;
  dirty_ = true;
  return &r;
}

void Communicator::recount(RankModel& r, Busy was) {
  const Busy is = busy(r);
  const auto change = [](bool before, bool after) { return static_cast<int>(after) - static_cast<int>(before); };
  ranks_in_flight_ += change(was.operation, is.operation);
  ranks_in_replay_ += change(was.replay, is.replay);
  ranks_in_p2p_ += change(was.p2p, is.p2p);
  entered_max_ = std::max(entered_max_, r.entered);
}

void Communicator::moved(RankModel& r, Nanoseconds at_ns) {
  r.moved_ns = std::max(r.moved_ns, at_ns);
  moved_ns_ = std::max(moved_ns_, at_ns);
}

// What the newest snapshot shows in flight and has ended now ended after it. (How long a kernel was queued behind
// others on its GPU, the host's launch and its duration do not say.)
Nanoseconds Communicator::shown_in_flight_ns(const RankModel& r, Nanoseconds now_ns) {
  return r.has_last && r.process ? r.process->clock.to_local(r.last.sample_monotonic_ns, now_ns) : 0;
}

// A snapshot may say it before the end of the communicator is announced, or NCCL has aborted it and nobody ends it.
void Communicator::reach(RankModel& r, abi::CommState state, Nanoseconds at_ns) {
  if (state == abi::CommState::aborted && r.aborted_ns == 0) r.aborted_ns = at_ns;
  r.state = std::max(r.state, state);
}

// The newest snapshot shows this operation: it has ended after it.
bool Communicator::ends_shown(RankModel& r, OpSeq op) {
  if (r.shows_in_flight.value == 0 || op < r.shows_in_flight || op > r.last.entered) return false;
  bool shown = false;
  for (InFlightOp& o : r.last.operations)
    if (o.key() == RoundKey{op}) shown |= !std::exchange(o.ended_since, true);
  r.shows_in_flight = oldest_shown(r.last);
  return shown;
}

// `newest`: the newest operation that has ended.
void Communicator::complete(RankModel& r, OpSeq newest) {
  r.completed = std::max(r.completed, newest);
  if (r.shows_in_flight.value != 0) r.completed = std::min(r.completed, OpSeq{r.shows_in_flight.value - 1});
}

void Communicator::finished(OpSeq op, const Signature& s) {
  if (needs_everybody(s.function) && (s.flags & (abi::op_no_kernel | abi::op_captured)) == 0)
    begun_by_all_ = std::max(begun_by_all_, op);
}

bool Communicator::take_room(uint64_t ranks) {
  if (budget_ && !budget_->take(ranks)) return false;
  room_taken_ += ranks;
  return true;
}

bool Communicator::contradicted_by(const CommUp& m) const {
  return rank_count_ == 0 && m.rank_count > 0 && ranks_.size() > static_cast<size_t>(m.rank_count);
}

void Communicator::up(const CommUp& m, ProcessModel& process, Nanoseconds now_ns) {
  if (m.rank_count <= 0 || static_cast<uint64_t>(m.rank_count) > settings_.ranks_max || m.rank.value >= m.rank_count)
    return;
  if (rank_count_ == 0) {
    // Who never speaks costs little, but not nothing: a look at a hang is as large as the communicator.
    if (contradicted_by(m) || !take_room(static_cast<uint64_t>(m.rank_count) / RankPages::page_ranks)) return;
    rank_count_ = m.rank_count;
    ranks_.set_size(static_cast<size_t>(rank_count_), true);
    history_.set_rank_count(rank_count_);
    replays_.set_rank_count(rank_count_);
  }
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  if (!m.name.empty()) name_ = m.name;
  if (m.parent.value != 0) parent_ = m.parent;
  comm_hash_ = m.comm_hash;
  const uint64_t names_refused_before = names_.refused();
  r->host = names_.of(m.host.empty() ? process.id.host : m.host, r->names_brought);
  r->node = m.node;
  r->local_rank = m.local_rank;
  for (size_t i = 0; i < hidden_ranks_.size(); ++i)
    if ((m.hidden & ~r->hidden & abi::hidden_all[i]) != 0) ++hidden_ranks_[i];
  r->hidden |= m.hidden;
  r->cuda_device = m.cuda_device;
  if (m.cuda_device >= 0)
    process.gpu = process.gpu == ProcessModel::gpu_unknown || process.gpu == m.cuda_device ? m.cuda_device
                                                                                         : ProcessModel::gpus_several;
  r->gpu_bus_id = names_.of(m.gpu_bus_id, r->names_brought);
  r->channels.assign(m.channels);
  r->connections.assign(m.connections, names_, r->names_brought);
  if (budget_ && names_.refused() != names_refused_before) budget_->count_names_refused();
  if (!r->up) {
    r->up_ns = now_ns;
    if (!r->down) ++process.comms_up;
  }
  r->up = true;
}

void Communicator::last_operations(const LastOperations& m, const ProcessModel& process) {
  RankModel* r = m.rank.value >= 0 ? ranks_.find(static_cast<size_t>(m.rank.value)) : nullptr;
  if (!r || r->process != &process) return;
  if (!r->in_frame) r->in_frame = std::make_unique<RankModel::InFrame>();
  r->in_frame->entered = std::max(r->in_frame->entered, m.entered);
  r->in_frame->launched = std::max(r->in_frame->launched, m.launched);
  r->in_frame->begun = std::max(r->in_frame->begun, m.begun);
}

void Communicator::down(const CommDown& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  const Busy was = busy(*r);
  reach(*r, m.state, now_ns);
  r->entered = std::max(r->entered, m.last_entered);
  if (!r->down) {
    if (r->up) --process.comms_up;
    ++process.comms_ended;
    r->down = true;
    for (ProcessModel::Membership& of : process.memberships) of.ended |= of.comm == uid_ && of.rank == m.rank;
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
  const Busy was = busy(*r);
  size_t kernel_first = 0, kernel_end = 0;
  r->rounds_sent_ns = std::max(r->rounds_sent_ns, process.sent_monotonic_ns);
  if (!m.rounds.empty()) history_.prefetch(m.rounds[0].op, m.rank);
  for (size_t i = 0; i < m.rounds.size(); ++i) {
    const Round& round = m.rounds[i];
    if (i % RoundCells::block_rounds == 0 && i + RoundCells::block_rounds < m.rounds.size())
      history_.prefetch(m.rounds[i + RoundCells::block_rounds].op, m.rank);
    if (i >= kernel_end) {
      kernel_first = i;
      kernel_end = i + kernel_rows(m.rounds, i);
    }
    RoundCell cell;
    // A kernel that carried several operations is one loss of time, not several: its first operation stands for all.
    cell.kernel_operations = static_cast<uint32_t>(kernel_end - kernel_first);
    cell.timed = is_timed(round) && i == kernel_first;
    if (cell.timed) {
      cell.begin_device_ns = round.begin_device_ns;
      cell.end_device_ns = round.end_device_ns;
      if (round.replay == 0 && r->last_round_end_ns != 0 && r->last_round.value + 1 == round.op.value &&
          round.begin_device_ns >= r->last_round_end_ns)
        cell.gap_ns = static_cast<Nanoseconds>(round.begin_device_ns - r->last_round_end_ns);
    }
    cell.send_changes = round.send_changes;
    cell.recv_changes = round.recv_changes;
    if (round.replay != 0) {
      replayed(*r, round, cell, now_ns);
      continue;
    }
    const bool newest = round.op > r->last_round;
    if (newest) {
      r->last_round = round.op;
      r->last_round_end_ns = cell.timed || i != kernel_first ? round.end_device_ns : 0;
    }
    history_.round(round.op, m.rank, round.signature, cell, now_ns);
    if (const bool shown = ends_shown(*r, round.op); round.op > r->completed && (newest || shown)) {
      complete(*r, r->last_round);
      if (r->completed > round.op)
        if (const Signature* s = history_.signature_of(r->completed, m.rank)) finished(r->completed, *s);
      const Nanoseconds began =
          process.clock.to_local(std::max(round.enter_monotonic_ns, round.launch_monotonic_ns), now_ns);
      const Nanoseconds ended = began + (cell.timed ? cell.duration_ns() : 0);
      moved(*r, std::min(now_ns, std::max(ended, shown_in_flight_ns(*r, now_ns))));
    }
    if (is_unseen(round)) r->unseen = std::max(r->unseen, round.op);
    r->entered = std::max(r->entered, round.op);
    r->launched = std::max(r->launched, round.op);
    // What was not measured may be reported before it ran, and what was aborted ended without the others. What ended
    // before an earlier operation proves nothing of that one.
    if ((round.flags & (round_not_measured | round_aborted)) == 0 && round.op <= r->completed)
      finished(round.op, round.signature);
  }
  recount(*r, was);
}

void Communicator::replayed(RankModel& r, const Round& round, const RoundCell& measured, Nanoseconds now_ns) {
  RoundCell cell = measured;
  const RoundKey before{OpSeq{round.op.value - 1}, round.replay};
  if (!r.last_replay) r.last_replay = std::make_unique<RankModel::LastReplay>();
  RankModel::LastReplay& last = *r.last_replay;
  if (cell.timed && last.key == before && last.end_ns != 0 && round.begin_device_ns >= last.end_ns)
    cell.gap_ns = static_cast<Nanoseconds>(round.begin_device_ns - last.end_ns);
  last = {round.key(), round.has_device_times() ? round.end_device_ns : 0};
  if (!replays_.round(round.key(), r.rank, round.signature, cell)) return;
  // It may have ended after the newest snapshot.
  if (std::erase_if(r.last.operations, [&](const InFlightOp& o) { return o.key() == round.key(); }) > 0)
    r.shows_replay = shows_replay(r.last);
  moved(r, now_ns);  // the host does not know when a graph is launched
}

void Communicator::p2p_rounds(const P2pRounds& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  const Busy was = busy(*r);
  if (!r->p2p_ended && !m.rounds.empty()) r->p2p_ended = std::make_unique<RankModel::P2pEnded>();
  for (const P2pRound& round : m.rounds) {
    const std::pair<int32_t, abi::Direction> pair{round.peer.value, round.direction};
    auto& ended = r->p2p_ended->calls;
    const auto known = ended.find(pair);
    const bool news = round.replay != 0 || known == ended.end() || round.pair_seq > known->second;
    if (round.replay == 0) {
      if (known != ended.end())
        known->second = std::max(known->second, round.pair_seq);
      else if (ended.size() < p2p_peers_max)
        ended[pair] = round.pair_seq;
    } else if (const std::tuple call{round.peer.value, round.direction, round.pair_seq};
               r->p2p_ended->replays.size() < p2p_peers_max || r->p2p_ended->replays.contains(call)) {
      uint32_t& newest = r->p2p_ended->replays[call];
      newest = std::max(newest, round.replay);
    }
    // It may have ended after the newest snapshot.
    const auto erased = std::erase_if(r->last.p2p, [&](const P2pCall& c) {
      return c.peer == round.peer && c.direction == round.direction && c.pair_seq == round.pair_seq &&
             c.replay == round.replay;
    });
    r->last.p2p_total -= std::min(r->last.p2p_total, static_cast<uint32_t>(erased));
    if (erased > 0) r->shows_p2p = shows_p2p(r->last);
    if (!news) continue;
    ++r->p2p_ended->count;
    ++p2p_rounds_;
    if (round.replay != 0) {
      moved(*r, now_ns);
      continue;
    }
    const Nanoseconds began =
        process.clock.to_local(std::max(round.enter_monotonic_ns, round.launch_monotonic_ns), now_ns);
    const Nanoseconds lasted = is_timed(round) ? static_cast<Nanoseconds>(round.end_device_ns - round.begin_device_ns) : 0;
    const Nanoseconds shown_ns = erased > 0 ? shown_in_flight_ns(*r, now_ns) : 0;
    moved(*r, std::min(now_ns, std::max(began + lasted, shown_ns)));
  }
  recount(*r, was);
}

void Communicator::in_flight(const InFlight& m, ProcessModel& process, Nanoseconds now_ns) {
  RankModel* r = member(m.rank, process, now_ns);
  if (!r) return;
  if (!is_news(m, process)) return;
  const Busy was = busy(*r);
  const Nanoseconds sampled_ns = process.clock.to_local(m.sample_monotonic_ns, now_ns);
  for (const InFlightOp& op : m.operations)
    if (op.replay == 0) history_.signature(op.op, m.rank, op.signature, now_ns);
  const bool news = !r->has_last || m.movement != r->last.movement || m.entered > r->entered ||
                    m.completed > r->completed || m.entered_p2p > r->last.entered_p2p ||
                    m.launched_p2p > r->last.launched_p2p;
  r->sampled_ns = sampled_ns;
  r->entered = std::max({r->entered, m.entered, m.completed});
  r->launched = std::max(r->launched, m.launched);
  if (m.completed > r->completed) {
    r->completed = m.completed;
    if (const Signature* s = history_.signature_of(m.completed, m.rank)) finished(m.completed, *s);
  }
  reach(*r, m.state, sampled_ns);
  if (m.held)
    moved(*r, sampled_ns);  // somebody wanted it to: that is no standstill
  else if (news)
    moved(*r, sampled_ns - static_cast<Nanoseconds>(m.moved_age_ms) * ns_per_ms);
  keep(r->last, m);
  // Rounds that came with it, or overtook it, may have ended since. It is the next one that tells whether they have.
  if (r->down || m.sample_monotonic_ns <= r->rounds_sent_ns)
    for (InFlightOp& o : r->last.operations) o.ended_since = o.op <= r->completed;
  r->shows_in_flight = oldest_shown(r->last);
  complete(*r, r->completed);
  r->shows_replay = shows_replay(r->last);
  r->shows_p2p = shows_p2p(r->last);
  r->waiting_channels = waiting_channels(r->last);
  r->has_last = true;
  r->not_watched = m.stopped;
  const auto calls =
      std::count_if(m.operations.begin(), m.operations.end(), [](const InFlightOp& o) { return o.replay == 0; });
  const bool listed = m.operations_total <= m.operations.size() && m.entered == r->entered && calls > 0;
  r->only_captured = listed && std::all_of(m.operations.begin(), m.operations.end(),
                                           [](const InFlightOp& o) { return o.replay != 0 || o.only_captured(); });
  recount(*r, was);
}

bool Communicator::is_news(const InFlight& m, const ProcessModel& process) const {
  const RankModel* const r = rank(m.rank);
  return !process.clock_is_doubtful && r && (!r->has_last || m.sample_monotonic_ns > r->last.sample_monotonic_ns);
}

OpSeq Communicator::completed_min() const {
  std::optional<OpSeq> there, left;
  for (const RankModel& r : ranks_) {
    if (!r.process) continue;
    std::optional<OpSeq>& least = r.left() ? left : there;
    least = std::min(least.value_or(r.completed), r.completed);
  }
  return there.value_or(left.value_or(OpSeq{}));
}

bool Communicator::is_barrier(const Signature& s) const { return decision::is_barrier(s, settings_.barrier_bytes_max); }

Signature Communicator::signature(OpSeq op) const {
  if (const Signature* s = history_.signature_at(op)) return *s;
  for (const RankModel& r : ranks_)
    for (const InFlightOp& o : r.last.operations)
      if (o.op == op) return o.signature;
  return {};
}

void log_kernels(const Communicator& comm, const Rounds& m, ProcessModel& process) {
  const RankModel* const r = comm.rank(m.rank);
  if (!r || process.memberships.size() < 2) return;  // one communicator is always the next
  for (size_t i = 0; i < m.rounds.size(); i += kernel_rows(m.rounds, i))
    if (is_timed(m.rounds[i])) process.kernels.add(comm.uid(), r->cuda_device, m.rounds[i].begin_device_ns);
}

void log_kernels(const Communicator& comm, const P2pRounds& m, ProcessModel& process) {
  const RankModel* const r = comm.rank(m.rank);
  if (!r || process.memberships.size() < 2) return;
  const P2pRound* previous = nullptr;
  for (const P2pRound& round : m.rounds) {
    const bool same_kernel = previous && previous->plan == round.plan && previous->replay == round.replay;
    if (is_timed(round) && !same_kernel) process.kernels.add(comm.uid(), r->cuda_device, round.begin_device_ns);
    previous = &round;
  }
}

bool is_nvlink_switch(const Communicator& comm, int32_t peer) {
  return comm.rank_count_known() && peer > comm.rank_count();
}

bool is_collective_network(const Communicator& comm, int32_t peer) {
  return comm.rank_count_known() && peer == comm.rank_count();
}

bool same_node(const Communicator& comm, Rank a, Rank b) {
  const RankModel *x = comm.rank(a), *y = comm.rank(b);
  if (!x || !y) return false;
  if (x->node >= 0 && y->node >= 0) return x->node == y->node;
  return x->host == y->host;
}

}  // namespace ccld::decision
