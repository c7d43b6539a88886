#include "decision/locate/hang.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "decision/locate/links.h"
#include "decision/locate/walk.h"

namespace ccld::decision {

Life life_of(const RankModel& r, const ProcessTable& processes) {
  if (!r.process) return Life::unknown;
  if (r.state == abi::CommState::aborted) return Life::aborted;
  if (r.process->gone()) return Life::gone;
  if (r.process->stopped()) return Life::stopped;
  // What its siblings say of the process stays a fact; its own silence does not.
  if (r.not_watched || r.process->probe_stopped) return Life::not_watched;
  if (processes.silent(*r.process) && r.process->may_have_left) return Life::not_watched;
  if (processes.silent(*r.process)) return processes.host_silent(*r.process) ? Life::host_silent : Life::silent;
  return Life::well;
}

namespace {

// The operation in the rank's own snapshot.
const InFlightOp* find_op(const RankModel& r, RoundKey key) {
  for (const InFlightOp& o : r.last.operations)
    if (o.key() == key) return &o;
  return nullptr;
}

Progress own_progress(const RankModel& r, OpSeq op) {
  if (r.completed >= op) return Progress::done;
  if (r.left()) return Progress::left;
  if (r.entered < op) return Progress::not_called;
  const InFlightOp* o = find_op(r, {op, 0});
  if (o && o->begun) return Progress::begun;
  if (o && o->only_captured()) return Progress::unknown;  // it called it, and nothing runs: no word on when it will
  // Launched by means that do not show when they begin.
  if (o && o->launched && !o->measures(abi::signal_times | abi::signal_stream)) return Progress::unknown;
  if ((o && o->launched) || r.launched >= op) return Progress::launched;
  return Progress::called;
}

// A rank that cannot speak is seen in its neighbours' lanes: what they received from it in this operation it has sent
// in it.
std::vector<bool> seen_by_neighbours(const Communicator& comm, const HangView& view) {
  std::vector<bool> seen(view.ranks.size());
  for (const RankModel& r : comm.ranks()) {
    const RankProgress& p = view.ranks[r.rank.value];
    if (!r.has_last || !p.reports() || p.progress != Progress::begun) continue;
    const InFlightOp* o = find_op(r, view.key());
    if (!o) continue;
    for (const LaneState& lane : r.last.lanes) {
      if (lane.token != o->plan || lane.peer < 0 || static_cast<size_t>(lane.peer) >= seen.size()) continue;
      const int32_t steps = steps_between(lane.base_step, lane.current_step);
      if (lane.direction == abi::Direction::recv ? steps > 0 : steps > steps_in_flight_max) seen[lane.peer] = true;
    }
  }
  return seen;
}

std::string life_text(Life life) {
  switch (life) {
    case Life::well: return "";
    case Life::stopped: return "its process is stopped";
    case Life::gone: return "its process is gone";
    case Life::silent: return "its process is silent";
    case Life::host_silent: return "its host is silent";
    case Life::aborted: return "it aborted the communicator";
    case Life::unknown: return "it was never heard of";
    case Life::not_watched: return "its probe is stopped";
  }
  return "";
}

std::string absent_reason(const RankProgress& p, OpSeq op) {
  std::string what;
  switch (p.progress) {
    case Progress::called: what = absl::StrCat("called operation ", op.value, " but did not launch it"); break;
    case Progress::launched:
      what = absl::StrCat("launched operation ", op.value,
                          " but its kernel never started: GPU busy with or stuck in earlier work");
      break;
    case Progress::left: what = absl::StrCat("left the communicator before operation ", op.value); break;
    default: what = absl::StrCat("did not call operation ", op.value); break;
  }
  const std::string life = life_text(p.life);
  return life.empty() ? what : absl::StrCat(what, ": ", life);
}

Component absent_component(const RankProgress& p) {
  switch (p.life) {
    case Life::stopped:
    case Life::gone:
    case Life::silent:
    case Life::unknown: return Component::process;
    case Life::host_silent: return Component::host;
    case Life::aborted: return Component::application;
    case Life::not_watched:
    case Life::well: break;
  }
  if (p.progress == Progress::launched) return Component::gpu;
  if (p.progress == Progress::called) return Component::process;
  return Component::application;
}

bool cannot_return(Life life) { return life == Life::gone || life == Life::stopped || life == Life::aborted; }

std::string absent_next_step(const RankProgress& p) {
  switch (p.life) {
    case Life::stopped:
      return "Find out who stopped the process (debugger, SIGSTOP, job control), and continue or restart it.";
    case Life::gone:
      return "Look for the exit status, core dump and kernel log of the process (out of memory, signal).";
    case Life::silent:
    case Life::unknown: return "Check whether the process lives and can reach the service.";
    case Life::host_silent: return "Check whether the host is up and reachable.";
    case Life::aborted: return "Look in the log of the rank for the error that made it abort.";
    case Life::not_watched:
    case Life::well: break;
  }
  if (p.progress == Progress::launched)
    return "Check the GPU: XID errors, other kernels that run on it, a stuck stream.";
  if (p.progress == Progress::called) return "Dump the stacks of the process: it is inside the call or an open group.";
  return "Dump the stacks of the process: it is busy or blocked before the call, or its control flow skipped it.";
}

Finding not_entered(const Communicator& comm, const HangView& view, const std::vector<Rank>& absent,
                    Nanoseconds now_ns) {
  Finding f;
  f.fault = FaultClass::h1_not_entered;
  f.op = view.op;
  f.signature = view.signature;
  // Ranks whose process cannot come back explain those that merely wait elsewhere for them.
  std::vector<Rank> named;
  for (Rank r : absent)
    if (cannot_return(view.ranks[r.value].life)) named.push_back(r);
  f.hard = !named.empty();
  if (named.empty()) {
    // Least progress first: those that launched may only be behind the others.
    Progress least = Progress::launched;
    for (Rank r : absent) {
      const Progress p = view.ranks[r.value].progress;
      least = std::min(least, p == Progress::left ? Progress::not_called : p);
    }
    const bool someone_inside = std::any_of(view.ranks.begin(), view.ranks.end(), [](const RankProgress& p) {
      return p.progress == Progress::begun || p.progress == Progress::done;
    });
    for (Rank r : absent) {
      const Progress p = view.ranks[r.value].progress;
      if (someone_inside || p <= least || p == Progress::left) named.push_back(r);
    }
    // All that are known are equally far and nobody inside: nobody is singled out.
    const auto known = static_cast<size_t>(std::count_if(view.ranks.begin(), view.ranks.end(), [](const RankProgress& p) {
      return p.progress != Progress::unknown;
    }));
    if (!someone_inside && named.size() == known) {
      f.candidates = named;
      f.confidence = 0.3;
      f.next_step =
          least == Progress::launched
              ? "All ranks launched the operation and no kernel started: look for earlier work that blocks the streams."
              : "All ranks called the operation and none launched it: look for connections that are not established, "
                "and open groups.";
      return f;
    }
  } else {
    for (Rank r : absent)
      if (!cannot_return(view.ranks[r.value].life)) f.candidates.push_back(r);
  }
  bool own_words = true;
  for (Rank r : named) {
    const RankProgress& p = view.ranks[r.value];
    const RankModel* m = comm.rank(r);
    own_words &= p.own_word;
    if (f.culprits.size() < culprits_max)
      f.culprits.push_back(make_culprit(comm, r, absent_component(p), absent_reason(p, view.op)));
    else
      f.candidates.push_back(r);
    add_evidence(f, r.value, "operations called", m ? static_cast<double>(m->entered.value) : 0, "operations");
    if (m && m->process)
      add_evidence(f, r.value, "since the last telemetry of its process", (now_ns - m->process->heard_ns) / 1e6, "ms");
  }
  size_t waiting = 0;
  for (const RankModel& m : comm.ranks()) {
    const RankProgress& p = view.ranks[m.rank.value];
    if (p.progress != Progress::begun && p.progress != Progress::launched && p.progress != Progress::called) continue;
    if (std::find(named.begin(), named.end(), m.rank) != named.end()) continue;
    if (waiting++ < 3) {
      if (const InFlightOp* o = find_op(m, view.key())) {
        const double since_ms = static_cast<double>(o->enter_age_ms) + (now_ns - m.sampled_ns) / 1e6;
        add_evidence(f, m.rank.value, absl::StrCat("has been in operation ", view.op.value, " for"), since_ms, "ms");
      }
    }
  }
  add_evidence(f, -1, absl::StrCat("ranks that wait in operation ", view.op.value), static_cast<double>(waiting),
               "ranks");
  f.confidence = own_words ? 0.95 : f.hard ? 0.85 : 0.7;
  if (!named.empty()) f.next_step = absent_next_step(view.ranks[named[0].value]);
  return f;
}

}  // namespace

Culprit make_culprit(const Communicator& comm, Rank rank, Component component, std::string reason) {
  Culprit c;
  c.rank = rank;
  c.component = component;
  c.reason = std::move(reason);
  if (const RankModel* r = comm.rank(rank)) {
    c.host = r->host;
    c.cuda_device = r->cuda_device;
    c.gpu_bus_id = r->gpu_bus_id;
    if (r->process) c.pid = r->process->id.pid;
  }
  return c;
}

std::string net_name_of(const Communicator& comm, Rank rank, abi::Direction direction, Rank peer, int channel) {
  const RankModel* r = comm.rank(rank);
  if (!r) return "";
  for (const NetConnection& c : r->connections)
    if (c.direction == direction && c.peer == peer.value && (channel < 0 || c.channel == channel)) return c.net_name;
  return "";
}

namespace {

// The replay that every rank's newest snapshot shows as begun.
std::optional<RoundKey> common_replay(const Communicator& comm, const ProcessTable& processes) {
  if (comm.ranks_in_replay() == 0 || !comm.rank_count_known() || comm.ranks_in_replay() < comm.rank_count())
    return std::nullopt;
  for (const InFlightOp& first : comm.ranks().front().last.operations) {
    if (first.replay == 0 || !first.begun) continue;
    const bool common = std::all_of(comm.ranks().begin(), comm.ranks().end(), [&](const RankModel& r) {
      const InFlightOp* o = find_op(r, first.key());
      return o && o->begun && life_of(r, processes) != Life::not_watched;
    });
    if (common) return first.key();
  }
  return std::nullopt;
}

std::optional<HangView> view_replay(const Communicator& comm, const ProcessTable& processes, RoundKey key) {
  HangView view;
  view.op = key.op;
  view.replay = key.replay;
  view.measured = false;
  view.ranks.resize(comm.rank_count());
  Nanoseconds known_up_to = processes.newest_ns();
  bool any = false;
  for (const RankModel& r : comm.ranks()) {
    RankProgress& p = view.ranks[r.rank.value];
    p.life = life_of(r, processes);
    p.progress = Progress::begun;
    p.own_word = true;
    const InFlightOp* o = find_op(r, key);
    view.measured |= o->measures(abi::signal_steps);
    if (view.signature.function == abi::Function::unknown) view.signature = o->signature;
    if (!p.reports() || processes.newest_ns() - r.sampled_ns > processes.silent_limit_ns()) continue;
    known_up_to = std::min(known_up_to, r.sampled_ns);
    any = true;
  }
  if (!any) return std::nullopt;
  view.stall_ns = std::max<Nanoseconds>(0, known_up_to - comm.moved_ns());
  return view;
}

}  // namespace

std::optional<HangView> view_hang(const Communicator& comm, const ProcessTable& processes) {
  if (const std::optional<RoundKey> replay = common_replay(comm, processes)) {
    if (std::optional<HangView> view = view_replay(comm, processes, *replay)) return view;
  }
  HangView view;
  view.ranks.resize(comm.rank_count());
  // The oldest operation on a rank whose word counts, and the oldest moment up to which all that talk have been heard.
  Nanoseconds known_up_to = processes.newest_ns();
  bool any = false;
  for (const RankModel& r : comm.ranks()) {
    RankProgress& p = view.ranks[r.rank.value];
    p.life = life_of(r, processes);
    if (!p.reports() || r.left()) continue;
    const bool outdated = r.in_flight() && processes.newest_ns() - r.sampled_ns > processes.silent_limit_ns();
    if (outdated) continue;
    known_up_to = std::min(known_up_to, r.in_flight() ? r.sampled_ns : std::max(r.sampled_ns, r.process->heard_ns));
    if (!r.in_flight()) continue;
    const OpSeq op = r.oldest_in_flight();
    if (!any || op < view.op) view.op = op;
    any = true;
  }
  if (!any) return std::nullopt;
  view.stall_ns = std::max<Nanoseconds>(0, known_up_to - comm.moved_ns());
  view.signature = comm.signature(view.op);
  bool launched = false, measured = false;
  for (const RankModel& r : comm.ranks()) {
    RankProgress& p = view.ranks[r.rank.value];
    if (p.life == Life::unknown || p.life == Life::not_watched) continue;
    p.progress = own_progress(r, view.op);
    if (const InFlightOp* o = find_op(r, view.key()); o && o->launched) {
      launched = true;
      measured |= o->measures(abi::signal_steps);
    }
    p.own_word = p.reports() || p.progress == Progress::begun || p.progress == Progress::done;
  }
  view.measured = measured || !launched;
  const std::vector<bool> seen = seen_by_neighbours(comm, view);
  for (size_t r = 0; r < view.ranks.size(); ++r) {
    RankProgress& p = view.ranks[r];
    if (p.life == Life::well || p.life == Life::not_watched || p.progress == Progress::begun || p.progress == Progress::done) continue;
    if (seen[r] || comm.begun_by_all() >= view.op) p.progress = Progress::begun;
  }
  return view;
}

Nanoseconds fresh_ns(const HangView& view, const Settings& settings) {
  return std::min(seconds_to_ns(settings.poll_fresh_s), std::max<Nanoseconds>(view.stall_ns / 2, 10 * ns_per_ms));
}

Finding locate_hang(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns) {
  std::vector<Rank> absent;
  for (size_t r = 0; r < view.ranks.size(); ++r) {
    switch (view.ranks[r].progress) {
      case Progress::not_called:
      case Progress::called:
      case Progress::launched:
      case Progress::left: absent.push_back(Rank{static_cast<int32_t>(r)}); break;
      case Progress::begun:
      case Progress::done:
      case Progress::unknown: break;  // one that was never heard of may still be the end of a walk
    }
  }
  const auto lost_for_good = [&](Rank r) { return cannot_return(view.ranks[r.value].life); };
  bool lost_inside = false;
  for (const RankProgress& p : view.ranks) lost_inside |= p.progress == Progress::begun && cannot_return(p.life);
  Finding f;
  if (absent.empty() || (lost_inside && std::none_of(absent.begin(), absent.end(), lost_for_good)))
    f = locate_inside(comm, view, settings, now_ns);
  // A rank that is merely absent may yet come; one that was lost inside the operation cannot.
  if (!absent.empty() && !f.hard) f = not_entered(comm, view, absent, now_ns);
  for (size_t r = 0; r < view.ranks.size(); ++r) {
    const Rank rank{static_cast<int32_t>(r)};
    const bool culprit =
        std::any_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank == rank; });
    if (!culprit && view.ranks[r].progress != Progress::done) f.victims.push_back(rank);
  }
  return f;
}

}  // namespace ccld::decision
