#include "decision/detect/hang_view.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "decision/detect/oldest_operation.h"
#include "decision/model/steps.h"

namespace ccld::decision {

namespace {

Life unless_left(Life life, const ProcessModel& p, Departures::Left left, const ProcessTable& processes) {
  return processes.why_left(p, left) == Departures::Why::itself ? life : Life::left;
}

Departures::Left left_at(const ProcessModel& p) {
  if (p.gone()) return {p.state_since_ns, p.state_since_ns};
  return {p.heard_ns, p.heard_ns + leaves_within_ns};
}

}  // namespace

Life life_of(const ProcessModel& p, const ProcessTable& processes) {
  if (p.gone()) return unless_left(Life::gone, p, left_at(p), processes);
  if (p.stopped()) return Life::stopped;
  // What its siblings say of the process stays a fact; its own silence does not.
  if (p.probe_stopped) return Life::not_watched;
  if (!processes.silent(p)) return Life::well;
  if (p.may_have_left) return Life::not_watched;
  if (processes.host_silent(p)) return unless_left(Life::host_silent, p, left_at(p), processes);
  // A host falls silent process by process: as long as none of them has spoken since, nobody knows which it is.
  const Nanoseconds spoke_since_ns = std::min(2 * ns_per_s, processes.silent_limit_ns() / 2);
  return p.host->heard_ns - p.heard_ns >= spoke_since_ns ? unless_left(Life::silent, p, left_at(p), processes)
                                                         : Life::well;
}

bool has_left(const ProcessModel& p, Nanoseconds now_ns) {
  constexpr Nanoseconds says_nothing_ns = 30 * ns_per_s;
  return p.gone() || now_ns - p.heard_ns >= says_nothing_ns;
}

Life life_of(const RankModel& r, const ProcessTable& processes) {
  if (!r.process) return Life::unknown;
  if (r.state == abi::CommState::aborted)
    return unless_left(Life::aborted, *r.process, {r.aborted_ns, r.aborted_ns}, processes);
  const Life life = life_of(*r.process, processes);
  return r.not_watched && !cannot_return(life) ? Life::not_watched : life;
}

Nanoseconds sampled_at(const RankModel& r) {
  return r.process ? r.process->clock.to_local(r.last.sample_monotonic_ns, r.sampled_ns) : r.sampled_ns;
}

bool cannot_return(Life life) { return life == Life::gone || life == Life::stopped || life == Life::aborted; }
bool lost(Life life) { return life != Life::well && life != Life::not_watched; }

bool left_a_hang(const RankModel& r, const ProcessTable& processes) {
  const bool aborted = r.state == abi::CommState::aborted && !r.process->gone();
  const Departures::Left left = aborted ? Departures::Left{r.aborted_ns, r.aborted_ns} : left_at(*r.process);
  return processes.why_left(*r.process, left) == Departures::Why::after_a_hang;
}

Nanoseconds lost_for_ns(const RankModel& r, Nanoseconds known_up_to_ns) {
  if (!r.process) return 0;
  return known_up_to_ns - (r.process->gone() || r.process->stopped() ? r.process->state_since_ns : r.moved_ns);
}

std::string life_text(Life life) {
  switch (life) {
    case Life::well: return "";
    case Life::stopped: return "its process is stopped";
    case Life::gone: return "its process is gone";
    case Life::left: return "it left afterwards";
    case Life::silent: return "its process is silent";
    case Life::host_silent: return "its host is silent";
    case Life::aborted: return "it aborted the communicator";
    case Life::unknown: return "it was never heard of";
    case Life::not_watched: return "its probe is stopped";
  }
  return "";
}

Condition condition_of(Life life) {
  switch (life) {
    case Life::stopped: return Condition::stopped;
    case Life::gone: return Condition::gone;
    case Life::silent: return Condition::silent;
    case Life::host_silent: return Condition::host_silent;
    case Life::aborted: return Condition::aborted;
    case Life::unknown: return Condition::never_heard;
    case Life::left:
    case Life::not_watched:
    case Life::well: break;
  }
  return Condition::unknown;
}

const InFlightOp* find_op(const RankModel& r, RoundKey key) {
  for (const InFlightOp& o : r.last.operations)
    if (o.key() == key) return &o;
  return nullptr;
}

namespace {

Progress own_progress(const RankModel& r, OpSeq op) {
  if (r.completed >= op) return Progress::done;
  if (r.left()) return Progress::left;
  if (r.entered < op) return Progress::not_called;
  const InFlightOp* o = find_op(r, {op, 0});
  if (o && o->ended_since && op <= r.last_round) return Progress::done;
  if (o && o->begun) return Progress::begun;
  if (o && o->only_captured()) return Progress::unknown;  // it called it, and nothing runs: no word on when it will
  // Launched by means that do not show when they begin.
  if (o && o->launched && !o->measures(abi::signal_times | abi::signal_stream)) return Progress::unknown;
  if ((o && o->launched) || r.launched >= op) return Progress::launched;
  return Progress::called;
}

// By the frame of a process that cannot speak, as a sibling read it.
Progress progress_by_frame(const RankModel::InFrame& f, OpSeq op) {
  return f.begun >= op      ? Progress::begun
         : f.launched >= op ? Progress::launched
         : f.entered >= op  ? Progress::called
                            : Progress::not_called;
}

// A rank that cannot speak is seen in its neighbours' lanes: what they received from it in this operation it has sent
// in it; and within a node it has taken what they have sent beyond the slots (on a network, buffers give slots back).
// What a node's switch has summed up all its ranks have sent; what a collective network has, all ranks.
absl::flat_hash_set<int32_t> seen_by_neighbours(const Communicator& comm, const HangView& view) {
  absl::flat_hash_set<int32_t> seen;
  if (!view.ranks.any([](const RankProgress& p) { return lost(p.life); })) return seen;
  const abi::Function function = view.signature.function;
  const bool sums = function == abi::Function::all_reduce || function == abi::Function::reduce_scatter;
  std::set<int> whole_nodes;
  bool all = false;
  for (const RankModel& r : comm.ranks()) {
    const RankProgress& p = view.ranks[r.rank.value];
    if (!r.has_last || !p.reports() || p.progress != Progress::begun) continue;
    const InFlightOp* o = find_op(r, view.key());
    if (!o) continue;
    for (const LaneState& lane : r.last.lanes) {
      if (lane.token != o->plan || lane.peer < 0) continue;
      const int32_t steps = steps_between(lane.base_step, lane.current_step);
      if (sums && lane.direction == abi::Direction::recv && steps > 0) {
        if (is_nvlink_switch(comm, lane.peer)) whole_nodes.insert(r.node);
        all |= is_collective_network(comm, lane.peer);
      }
      if (static_cast<size_t>(lane.peer) >= view.ranks.size()) continue;
      const bool sent = lane.direction == abi::Direction::recv && steps > 0;
      const bool taken = lane.direction == abi::Direction::send && steps > steps_in_flight_max &&
                         same_node(comm, r.rank, Rank{lane.peer});
      if (sent || taken) seen.insert(lane.peer);
    }
  }
  if (!all && whole_nodes.empty()) return seen;
  for (const RankModel& r : comm.ranks())
    if (all || whole_nodes.contains(r.node)) seen.insert(r.rank.value);
  return seen;
}

// The replay that most ranks show as begun whose word counts; of equals the least.
std::optional<RoundKey> most_common_replay(const Communicator& comm, const ProcessTable& processes) {
  std::map<RoundKey, int> ranks;
  for (const RankModel& r : comm.ranks())
    if (r.in_replay() && life_of(r, processes) == Life::well && !outdated(r, processes))
      for (const InFlightOp& o : r.last.operations)
        if (o.replay != 0 && o.begun) ++ranks[o.key()];
  if (ranks.empty()) return std::nullopt;
  return std::max_element(ranks.begin(), ranks.end(),
                          [](const auto& a, const auto& b) {
                            return a.second != b.second ? a.second < b.second : a.first > b.first;
                          })
      ->first;
}

// Whether it is known that the rank's GPU has not begun this replay, although it has run the one before it.
bool misses_replay(const Communicator& comm, const RankModel& r, RoundKey key) {
  const ReplayHistory& replays = comm.replays();
  if (!replays.reported({key.op, key.replay - 1}, r.rank) || replays.reported(key, r.rank)) return false;
  if (!r.process || !r.has_last) return false;
  // Before the first replay there is nothing to compare with but the absence of losses.
  return key.replay > 1 || r.process->lost_batches() == 0;
}

std::optional<HangView> view_replay(const Communicator& comm, const ProcessTable& processes, const Settings& settings) {
  if (comm.ranks_in_replay() == 0 || !comm.rank_count_known()) return std::nullopt;
  const std::optional<RoundKey> key = most_common_replay(comm, processes);
  if (!key) return std::nullopt;
  HangView view;
  view.op = key->op;
  view.replay = key->replay;
  view.warmup = key->replay <= settings.warmup_rounds;
  view.measured = false;
  view.ranks = RankViews(static_cast<size_t>(comm.rank_count()));
  Nanoseconds known_up_to = processes.newest_ns();
  bool any = false;
  for (const RankModel& r : comm.ranks()) {
    RankProgress& p = view.ranks.at(static_cast<size_t>(r.rank.value));
    p.life = life_of(r, processes);
    if (p.life == Life::not_watched) return std::nullopt;
    const InFlightOp* o = find_op(r, *key);
    p.own_word = true;
    if (o && o->begun) {
      p.progress = Progress::begun;
      view.measured |= o->measures(abi::signal_steps);
      if (view.signature.function == abi::Function::unknown) view.signature = o->signature;
    } else if (comm.replays().reported(*key, r.rank)) {
      p.progress = Progress::done;
    } else if (misses_replay(comm, r, *key)) {
      p.progress = Progress::not_called;
    } else if (lost(p.life)) {
      p.progress = Progress::not_called;  // as far as it could say
      p.own_word = false;
    } else {
      return std::nullopt;
    }
    if (!p.reports() || outdated(r, processes)) continue;
    known_up_to = std::min(known_up_to, sampled_at(r));
    any |= p.progress == Progress::begun;
  }
  if (!any || view.ranks.any([](const RankProgress& p) { return p.life == Life::unknown; })) return std::nullopt;
  for (int32_t rank : seen_by_neighbours(comm, view))
    if (RankProgress& p = view.ranks.at(static_cast<size_t>(rank)); lost(p.life) && p.progress != Progress::done)
      p.progress = Progress::begun;
  view.stall_ns = std::max<Nanoseconds>(0, known_up_to - comm.moved_ns());
  return view;
}

std::optional<HangView> view_operation(const Communicator& comm, const ProcessTable& processes,
                                       const Settings& settings) {
  if (comm.ranks_in_flight() == 0) return std::nullopt;
  HangView view;
  view.ranks = RankViews(static_cast<size_t>(comm.rank_count()));
  // The oldest operation on a rank whose word counts, and the oldest moment up to which all that talk have been heard.
  Nanoseconds known_up_to = processes.newest_ns();
  bool any = false;
  comm.visit_ranks([&](const RankModel& r) {
    RankProgress& p = view.ranks.at(static_cast<size_t>(r.rank.value));
    p.life = life_of(r, processes);
    if (!p.reports() || r.left()) return;
    if (r.in_flight() && outdated(r, processes)) return;
    known_up_to = std::min(known_up_to, r.in_flight() ? sampled_at(r) : std::max(sampled_at(r), r.process->heard_ns));
    if (!operation_counts(r, p.life, processes)) return;
    const OpSeq op = r.oldest_in_flight();
    if (!any || op < view.op) view.op = op;
    any = true;
  });
  if (!any) return std::nullopt;
  view.stall_ns = std::max<Nanoseconds>(0, known_up_to - comm.moved_ns());
  view.signature = comm.signature(view.op);
  view.warmup = view.op.value <= settings.warmup_rounds;
  bool launched = false, measured = false, absent = false;
  comm.visit_ranks([&](const RankModel& r) {
    RankProgress& p = view.ranks.at(static_cast<size_t>(r.rank.value));
    if (p.life == Life::unknown || p.life == Life::not_watched) return;
    p.progress = own_progress(r, view.op);
    // Somebody finished it, which needs everybody: a snapshot that says otherwise is older than that.
    const bool waits_to_begin =
        p.progress == Progress::not_called || p.progress == Progress::called || p.progress == Progress::launched;
    if (waits_to_begin && p.reports() && comm.begun_by_all() >= view.op) p.progress = Progress::begun;
    const bool by_frame = lost(p.life) && r.in_frame && r.in_frame->entered.value > 0;
    if (by_frame && waits_to_begin) p.progress = std::max(p.progress, progress_by_frame(*r.in_frame, view.op));
    if (const InFlightOp* o = find_op(r, view.key()); o && o->launched) {
      launched = true;
      measured |= o->measures(abi::signal_steps);
    }
    p.own_word = p.reports() || by_frame || p.progress == Progress::begun || p.progress == Progress::done;
  });
  const absl::flat_hash_set<int32_t> seen = seen_by_neighbours(comm, view);
  for (int32_t rank : seen) view.ranks.at(static_cast<size_t>(rank));
  view.ranks.change([&](Rank rank, RankProgress& p) {
    if (p.life != Life::well && p.life != Life::not_watched && p.progress != Progress::begun &&
        p.progress != Progress::done && (seen.contains(rank.value) || comm.begun_by_all() >= view.op))
      p.progress = Progress::begun;
    // Without a rank nothing can move, whether its steps would be seen or not.
    absent |= p.reports() && (p.progress == Progress::not_called || p.progress == Progress::left);
  });
  view.measured = measured || !launched || absent;
  view.awaited = view.ranks.any([](const RankProgress& p) {
    return p.progress == Progress::begun || p.progress == Progress::done || p.progress == Progress::unknown ||
           lost(p.life);
  });
  return view;
}

std::optional<HangView> view_p2p(const Communicator& comm, const ProcessTable& processes, const Settings& settings) {
  if (comm.ranks_in_p2p() == 0) return std::nullopt;
  HangView view;
  view.p2p = true;
  view.warmup = true;
  view.ranks = RankViews(static_cast<size_t>(comm.rank_count()));
  Nanoseconds known_up_to = processes.newest_ns();
  bool any = false;
  for (const RankModel& r : comm.ranks()) {
    RankProgress& p = view.ranks.at(static_cast<size_t>(r.rank.value));
    p.life = life_of(r, processes);
    p.own_word = p.reports();
    if (!r.has_last || p.life == Life::not_watched) continue;
    for (const P2pCall& c : r.last.p2p) {
      if (c.begun && !c.only_captured()) p.progress = Progress::begun;
      if (c.launched && std::max<uint64_t>(c.pair_seq, c.replay) > settings.warmup_rounds) view.warmup = false;
      if (c.launched && view.signature.function == abi::Function::unknown) {
        view.signature.function = c.direction == abi::Direction::send ? abi::Function::send : abi::Function::recv;
        view.signature.count = c.bytes;
        view.signature.datatype = abi::Datatype::uint8;
      }
    }
    if (!p.reports() || r.left()) continue;
    if (r.in_p2p() && outdated(r, processes)) continue;
    known_up_to = std::min(known_up_to, r.in_p2p() ? sampled_at(r) : std::max(sampled_at(r), r.process->heard_ns));
    any |= r.in_p2p();
  }
  if (!any) return std::nullopt;
  view.stall_ns = std::max<Nanoseconds>(0, known_up_to - comm.moved_ns());
  return view;
}

}  // namespace

std::optional<HangView> view_hang(const Communicator& comm, const ProcessTable& processes, const Settings& settings) {
  if (std::optional<HangView> view = view_replay(comm, processes, settings)) return view;
  if (std::optional<HangView> view = view_operation(comm, processes, settings)) return view;
  return view_p2p(comm, processes, settings);
}

bool still_hangs(const Communicator& comm, RoundKey key, const ProcessTable& processes, const Settings& settings) {
  if (key.op.value == 0) return false;
  const std::optional<HangView> view = view_hang(comm, processes, settings);
  if (!view || view->p2p) return false;
  return view->replay == 0 && key.replay == 0 ? view->op <= key.op : view->key() == key;
}

Nanoseconds fresh_ns(const HangView& view, const Settings& settings) {
  return std::min(seconds_to_ns(settings.poll_fresh_s), std::max<Nanoseconds>(view.stall_ns / 2, 10 * ns_per_ms));
}

}  // namespace ccld::decision
