#include "test/sim/judge/judge.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/analysis/slow_confidence.h"

namespace ccld::sim {

using namespace decision;

namespace {

int process_of(const Layout& layout, const Incident& i, Rank rank) {
  const int comm = layout.comm_with(i.comm.value);
  if (comm < 0 || rank.value < 0 || rank.value >= layout.comms()[comm].ranks()) return -1;
  return layout.comms()[comm].members[rank.value];
}

// The process was inside the operation when it was named.
bool was_inside(const Job& job, const Incident& i) {
  const int comm = job.layout().comm_with(i.comm.value);
  if (comm < 0) return false;
  return std::any_of(i.culprits.begin(), i.culprits.end(),
                     [&](const Culprit& c) { return job.began(comm, c.rank.value, i.op.value); });
}

bool class_right(const Planted& p, const Job& job, const Incident& i) {
  const FaultClass f = i.fault;
  switch (p.kind) {
    // Lost inside an operation it hangs for another reason than one that never came.
    case FaultKind::stopped:
    case FaultKind::killed:
    case FaultKind::silent_process:
    case FaultKind::host_down:
    case FaultKind::dead_gpu:
      return was_inside(job, i) ? f == FaultClass::h3_hardware || f == FaultClass::h1_not_entered
                                : f == FaultClass::h1_not_entered;
    default: break;
  }
  if (is_h1(p.kind)) return f == FaultClass::h1_not_entered;
  if (is_h2(p.kind)) return f == FaultClass::h2_inconsistent;
  if (is_h3(p.kind)) return f == FaultClass::h3_hardware;
  if (is_s1(p.kind)) return f == FaultClass::s1_computation_slow;
  if (is_s2(p.kind)) return f == FaultClass::s2_communication_slow;
  return f == FaultClass::s3_mixed_slow;
}

std::set<Component> components(FaultKind k) {
  switch (k) {
    case FaultKind::never_calls: return {Component::application};
    case FaultKind::called_not_launched: return {Component::process};
    case FaultKind::kernel_never_starts:
    case FaultKind::dead_gpu:
    case FaultKind::frozen_channel:
    case FaultKind::frozen_group:
    case FaultKind::slow_clock: return {Component::gpu};
    case FaultKind::stopped:
    case FaultKind::killed:
    case FaultKind::silent_process:
    case FaultKind::late_host:
    case FaultKind::pauses: return {Component::process};
    case FaultKind::host_down: return {Component::host};
    case FaultKind::stuck_proxy:
    case FaultKind::seldom_proxy:
    case FaultKind::delaying_proxy: return {Component::proxy};
    case FaultKind::cut_link: return {Component::link};
    // With RDMA a send is done when it has arrived: what waits for a slow wire waits in the sender's device.
    case FaultKind::throttled_link: return {Component::link, Component::nic};
    case FaultKind::dead_nic: return {Component::nic};
    case FaultKind::late_and_throttled: return {Component::process, Component::link, Component::nic};
    case FaultKind::slow_clock_and_delaying: return {Component::gpu, Component::proxy};
    default: return {Component::application};
  }
}

bool names_link(const Planted& p, const Layout& layout, const Incident& i, const Culprit& c) {
  if (!c.peer) return false;
  const int a = process_of(layout, i, c.rank), b = process_of(layout, i, *c.peer);
  // Both directions between two stages have the same ends: the sender must be told.
  if (!p.links.empty()) return std::find(p.links.begin(), p.links.end(), std::pair(a, b)) != p.links.end();
  return (a == p.sender && b == p.receiver) || (a == p.receiver && b == p.sender);
}

// Candidates instead of a culprit are right only where nobody could know.
bool may_be_open(const Truth& t, const Layout& layout, const Incident& i) {
  const Planted& p = *t.planted;
  if (p.kind == FaultKind::other_order || p.kind == FaultKind::other_bytes) return true;
  if (is_h2(p.kind) && (t.untold || t.tied)) return true;
  const int comm = layout.comm_with(i.comm.value);
  return is_h2(p.kind) && comm >= 0 && layout.comms()[comm].ranks() == 2;
}

// A GPU that stands still in its own work keeps a host that waits for it from calling: nothing tells that from a
// program that is busy.
bool host_waits_for_gpu(const Planted& p, const Job& job, const Incident& i) {
  if (p.kind != FaultKind::kernel_never_starts && p.kind != FaultKind::dead_gpu) return false;
  const int comm = job.layout().comm_with(i.comm.value);
  return comm >= 0 && std::none_of(i.culprits.begin(), i.culprits.end(),
                                   [&](const Culprit& c) { return job.called(comm, c.rank.value, i.op.value); });
}

Mistake who(const Truth& t, const Incident& i) {
  const Planted& p = *t.planted;
  const Job& job = *t.job;
  const Layout& layout = job.layout();
  std::set<int> named, planted(p.processes.begin(), p.processes.end());
  bool link_named = false;
  for (const Culprit& c : i.culprits) {
    if (p.sender >= 0 && names_link(p, layout, i, c))
      link_named = true, named.insert(p.sender);
    else
      named.insert(process_of(layout, i, c.rank));
  }
  if (named.empty()) {
    const bool among = std::any_of(i.candidates.begin(), i.candidates.end(),
                                   [&](Rank r) { return planted.contains(process_of(layout, i, r)); });
    return among && may_be_open(t, layout, i) ? Mistake::none : Mistake::wrong_rank;
  }
  // Of a host that is down a communicator knows only its own ranks.
  const bool some_do = p.kind == FaultKind::host_down;
  if (some_do ? !std::includes(planted.begin(), planted.end(), named.begin(), named.end()) : named != planted)
    return Mistake::wrong_rank;
  if (p.sender >= 0 && !link_named) return Mistake::wrong_rank;
  if (is_h2(p.kind)) return Mistake::none;
  std::set<Component> right = components(p.kind);
  // From a process without siblings nobody can tell its host.
  if (p.processes.size() == 1 && right.contains(Component::process) && layout.alone_on_host(p.processes[0]))
    right.insert(Component::host);
  // Nor of one that never spoke to this service.
  if (p.kind == FaultKind::host_down && std::all_of(i.culprits.begin(), i.culprits.end(), [](const Culprit& c) {
        return c.condition == Condition::never_heard;
      }))
    right.insert(Component::process);
  if (host_waits_for_gpu(p, job, i)) right.insert(Component::application);
  for (const Culprit& c : i.culprits)
    if (!right.contains(c.component)) return Mistake::wrong_component;
  return Mistake::none;
}

bool content_right(const Truth& t, const Incident& i) {
  if (t.planted->kind == FaultKind::none || i.suspected_ns < t.planted->at || !class_right(*t.planted, *t.job, i))
    return false;
  // That iterations got longer, and by what, is all that a slow incident without a culprit says.
  if (is_slow(t.planted->kind) && i.culprits.empty()) return true;
  return who(t, i) == Mistake::none;
}

Word word_of(const Truth& t, const Incident& i) {
  Word w;
  w.fault = i.fault;
  w.confidence = i.confidence;
  w.right = content_right(t, i);
  if (i.fault < FaultClass::s1_computation_slow) return w;
  std::set<int> causes;
  for (const Culprit& c : i.culprits)
    if (causes.insert(c.cause).second) w.rows.push_back(static_cast<size_t>(&row_of(c) - slow_confidences().data()));
  return w;
}

}  // namespace

const char* name(Mistake m) {
  switch (m) {
    case Mistake::none: return "right";
    case Mistake::false_alarm: return "false alarm";
    case Mistake::missed: return "missed";
    case Mistake::late: return "late";
    case Mistake::unconfirmed: return "not confirmed";
    case Mistake::several: return "several incidents";
    case Mistake::wrong_class: return "wrong class";
    case Mistake::wrong_rank: return "wrong rank";
    case Mistake::wrong_component: return "wrong component";
  }
  return "?";
}

std::string describe(const Incident& i, const Layout& layout) {
  std::string text = absl::StrCat("#", i.id, " ", decision::name(i.fault), " ", decision::name(i.state), " at ",
                                  static_cast<double>(i.suspected_ns / ns_per_ms) / 1e3, " s");
  const int comm = layout.comm_with(i.comm.value);
  absl::StrAppend(&text, " in ", comm >= 0 ? layout.comms()[comm].name : "?", "[", comm, "] op ", i.op.value, ":");
  for (const Culprit& c : i.culprits) {
    absl::StrAppend(&text, " process ", process_of(layout, i, c.rank), " ", decision::name(c.component));
    if (c.peer) absl::StrAppend(&text, " to ", process_of(layout, i, *c.peer));
    absl::StrAppend(&text, " (", c.reason, ")");
  }
  if (!i.candidates.empty()) {
    absl::StrAppend(&text, " candidates ", absl::StrJoin(i.candidates, ",", [&](std::string* out, Rank r) {
      absl::StrAppend(out, process_of(layout, i, r));
    }));
  }
  return text;
}

Judgement judge(const Truth& t, const Said& said) {
  Judgement j;
  const Layout& layout = t.job->layout();
  std::set<uint64_t> ids;
  for (const Incident& i : said.reported) ids.insert(i.id);
  for (const Incident& i : said.last) j.words.push_back(word_of(t, i));
  for (const Incident& i : said.last) absl::StrAppend(&j.said, j.said.empty() ? "" : " | ", describe(i, layout));
  if (j.said.empty()) j.said = "nothing";

  const auto verdict = [&](Mistake m) { return j.mistake = m, j; };
  if (t.planted->kind == FaultKind::none) return verdict(ids.empty() ? Mistake::none : Mistake::false_alarm);
  const auto early = [&](const Incident& i) { return i.suspected_ns < t.planted->at; };
  if (std::any_of(said.reported.begin(), said.reported.end(), early)) return verdict(Mistake::false_alarm);
  std::vector<const Incident*> open;
  for (const Incident& i : said.last)
    if (is_open(i.state) || (t.ends && i.state == VerdictState::ended)) open.push_back(&i);
  if (open.empty() && (t.untold || t.nobody_is_left)) return verdict(Mistake::none);
  if (open.empty()) return verdict(ids.empty() ? Mistake::missed : Mistake::late);
  // The content first: what several incidents say matters less than whether one of them is right.
  Mistake best = Mistake::several;
  for (const Incident* i : open) {
    const Mistake m = !class_right(*t.planted, *t.job, *i) ? Mistake::wrong_class : who(t, *i);
    if (m == Mistake::none || i == open.front()) best = m;
    if (m == Mistake::none) break;
  }
  if (best != Mistake::none) return verdict(best);
  if (ids.size() > 1) return verdict(Mistake::several);
  if (open[0]->suspected_ns > t.suspect_by) return verdict(Mistake::late);
  if (t.confirm_by < never && (open[0]->confirmed_ns == 0 || open[0]->confirmed_ns > t.confirm_by))
    return verdict(Mistake::unconfirmed);
  return verdict(Mistake::none);
}

}  // namespace ccld::sim
