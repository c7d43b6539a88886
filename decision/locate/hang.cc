#include "decision/locate/hang.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "decision/locate/busy_host.h"
#include "decision/locate/links.h"
#include "decision/locate/walk.h"

namespace ccld::decision {
namespace {

constexpr size_t rows_of_waiters_max = 3;

std::string absent_reason(const RankProgress& p, RoundKey key) {
  const OpSeq op = key.op;
  std::string what;
  switch (p.progress) {
    case Progress::called: what = absl::StrCat("called operation ", op.value, " but did not launch it"); break;
    case Progress::launched:
      what = absl::StrCat("launched operation ", op.value,
                          " but its kernel never started: GPU busy with or stuck in earlier work");
      break;
    case Progress::left: what = absl::StrCat("left the communicator before operation ", op.value); break;
    default:
      // One that fell silent before may have come so far unseen.
      what = absl::StrCat(p.own_word ? "did not call operation " : "was not seen to call operation ", op.value);
      break;
  }
  if (key.replay != 0)
    what = absl::StrCat(p.own_word ? "its GPU did not begin replay " : "its GPU was not seen to begin replay ",
                        key.replay, " of operation ", op.value);
  const std::string life = life_text(p.life);
  return life.empty() ? what : absl::StrCat(what, ": ", life);
}

Condition absent_condition(const RankProgress& p, RoundKey key) {
  if (const Condition c = condition_of(p.life); c != Condition::unknown) return c;
  if (key.replay != 0) return Condition::replay_not_begun;
  switch (p.progress) {
    case Progress::called: return Condition::not_launched;
    case Progress::launched: return Condition::kernel_not_started;
    case Progress::left: return Condition::left;
    default: return Condition::not_called;
  }
}

Component absent_component(const RankProgress& p) {
  switch (p.life) {
    case Life::stopped:
    case Life::gone:
    case Life::silent:
    case Life::unknown: return Component::process;
    case Life::host_silent: return Component::host;
    case Life::aborted: return Component::application;
    case Life::left:
    case Life::not_watched:
    case Life::well: break;
  }
  if (p.progress == Progress::launched) return Component::gpu;
  if (p.progress == Progress::called) return Component::process;
  return Component::application;
}

std::string absent_next_step(const RankProgress& p, RoundKey key) {
  switch (p.life) {
    case Life::stopped:
      return "Find out who stopped the process (debugger, SIGSTOP, job control), and continue or restart it.";
    case Life::gone:
      return "Look for the exit status, core dump and kernel log of the process (out of memory, signal).";
    case Life::silent:
    case Life::unknown: return "Check whether the process lives and can reach the service.";
    case Life::host_silent: return "Check whether the host is up and reachable.";
    case Life::aborted: return "Look in the log of the rank for the error that made it abort.";
    case Life::left:
    case Life::not_watched:
    case Life::well: break;
  }
  if (key.replay != 0)
    return "Dump the stacks of the process: the host may not have launched the graph, or its GPU may be stuck in work "
           "before this operation (the launch of a graph cannot be seen from the host).";
  if (p.progress == Progress::launched)
    return "Check the GPU: XID errors, other kernels that run on it, a stuck stream.";
  if (p.progress == Progress::called) return "Dump the stacks of the process: it is inside the call or an open group.";
  return "Dump the stacks of the process: it is busy or blocked before the call, or its control flow skipped it.";
}

}  // namespace

Culprit absent_culprit(const Communicator& comm, const HangView& view, Rank r) {
  const RankProgress& p = view.ranks[r.value];
  return make_culprit(comm, r, absent_component(p), absent_condition(p, view.key()), absent_reason(p, view.key()));
}

namespace {

Finding not_entered(const Communicator& comm, const HangView& view, const std::vector<Rank>& absent,
                    const Settings& settings, Nanoseconds now_ns) {
  Finding f;
  f.fault = FaultClass::h1_not_entered;
  f.op = view.op;
  f.replay = view.replay;
  f.signature = view.signature;
  // Ranks whose process cannot come back explain those that merely wait elsewhere for them.
  std::vector<Rank> named;
  for (Rank r : absent)
    if (cannot_return(view.ranks[r.value].life)) named.push_back(r);
  // A job that ends passes through such states for an instant.
  f.hard = std::any_of(named.begin(), named.end(), [&](Rank r) {
    return lost_for_ns(*comm.rank(r), comm.moved_ns() + view.stall_ns) >= seconds_to_ns(settings.hard_evidence_s);
  });
  if (named.empty()) {
    // Least progress first: those that launched may only be behind the others.
    Progress least = Progress::launched;
    for (Rank r : absent) {
      const Progress p = view.ranks[r.value].progress;
      least = std::min(least, p == Progress::left ? Progress::not_called : p);
    }
    const bool someone_inside = view.ranks.any(
        [](const RankProgress& p) { return p.progress == Progress::begun || p.progress == Progress::done; });
    for (Rank r : absent) {
      const Progress p = view.ranks[r.value].progress;
      if (someone_inside || p <= least || p == Progress::left) named.push_back(r);
    }
    // All that are known are equally far and nobody inside: nobody is singled out.
    const size_t known = view.ranks.count([](const RankProgress& p) { return p.progress != Progress::unknown; });
    if (!someone_inside && named.size() == known) {
      f.candidates = f.wanted = named;
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
  f.wanted = named;
  bool own_words = true;
  for (Rank r : named) {
    const RankProgress& p = view.ranks[r.value];
    const RankModel* m = comm.rank(r);
    own_words &= p.own_word;
    // What was launched and does not start may wait for nothing but a processor.
    auto lack = p.life == Life::well && p.progress == Progress::launched
                    ? starved(comm, r, Mover::gpu, view.stall_ns, now_ns, settings, f)
                    : std::nullopt;
    if (f.culprits.size() < culprits_max)
      f.culprits.push_back(lack ? *std::move(lack) : absent_culprit(comm, view, r));
    else
      f.candidates.push_back(r);
    const RankModel::InFrame in_frame = m && m->in_frame ? *m->in_frame : RankModel::InFrame{};
    const uint64_t called = m ? std::max(m->entered, in_frame.entered).value : 0;
    add_evidence(f, {.kind = EvidenceKind::calls_made, .rank = r.value, .value = static_cast<double>(called)});
    if (in_frame.entered.value > 0)
      add_evidence(
          f,
          {.kind = EvidenceKind::kernels_begun, .rank = r.value, .value = static_cast<double>(in_frame.begun.value)});
    if (m && m->process)
      add_evidence(f, {.kind = EvidenceKind::telemetry_age,
                       .rank = r.value,
                       .value = static_cast<double>(now_ns - m->process->heard_ns) / 1e6});
  }
  size_t waiting = 0;
  view.ranks.visit([&](Rank rank, const RankProgress& p) {
    if (p.progress != Progress::begun && p.progress != Progress::launched && p.progress != Progress::called) return;
    if (std::binary_search(named.begin(), named.end(), rank)) return;
    const RankModel* m = comm.rank(rank);
    const InFlightOp* o = m ? find_op(*m, view.key()) : nullptr;
    // The ages of replays are those of the capture.
    const Nanoseconds age_ns =
        o && view.replay == 0 ? static_cast<Nanoseconds>(o->enter_age_ms) * ns_per_ms + now_ns - m->sampled_ns : 0;
    if (waiting++ < rows_of_waiters_max && age_ns > 0)
      add_evidence(f, {.kind = EvidenceKind::operation_age,
                       .rank = rank.value,
                       .op = view.op,
                       .value = static_cast<double>(age_ns) / 1e6});
    if (!named.empty() && f.waits.size() < waits_max)
      f.waits.push_back({.rank = rank, .waits_for = named[0], .what = WaitFor::entry, .age_ns = age_ns});
  });
  add_evidence(f, {.kind = EvidenceKind::ranks_waiting, .op = view.op, .value = static_cast<double>(waiting)});
  f.confidence = view.replay != 0 ? 0.7 : own_words ? 0.95 : f.hard ? 0.85 : 0.7;
  if (!named.empty()) f.next_step = absent_next_step(view.ranks[named[0].value], view.key());
  weigh_starved(f);
  return f;
}

}  // namespace

Finding locate_hang(const Communicator& comm, const HangView& view, const Settings& settings, Nanoseconds now_ns) {
  std::vector<Rank> absent;
  view.ranks.visit([&](Rank rank, const RankProgress& p) {
    switch (p.progress) {
      case Progress::not_called:
      case Progress::called:
      case Progress::launched:
      case Progress::left: absent.push_back(rank); break;
      case Progress::begun:
      case Progress::done:
      case Progress::unknown: break;  // one that was never heard of may still be the end of a walk
    }
  });
  const auto lost_for_good = [&](Rank r) { return cannot_return(view.ranks[r.value].life); };
  const bool lost_inside =
      view.ranks.any([](const RankProgress& p) { return p.progress == Progress::begun && cannot_return(p.life); });
  Finding f;
  if (absent.empty() || (lost_inside && std::none_of(absent.begin(), absent.end(), lost_for_good)))
    f = locate_inside(comm, view, settings, now_ns);
  // A rank that is merely absent may yet come; one that was lost inside the operation cannot.
  if (!absent.empty() && !f.hard) f = not_entered(comm, view, absent, settings, now_ns);
  absl::flat_hash_set<int32_t> culprits;
  for (const Culprit& c : f.culprits) culprits.insert(c.rank.value);
  view.ranks.visit([&](Rank rank, const RankProgress& p) {
    if (p.life != Life::unknown && p.progress != Progress::done && !culprits.contains(rank.value))
      f.victims.push_back(rank);
  });
  return f;
}

}  // namespace ccld::decision
