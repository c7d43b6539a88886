#include "decision/paper/rules.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "decision/locate/slow_finding.h"
#include "decision/paper/locate_hang.h"

namespace ccld::decision {
namespace {

// Once a hang is known it is looked at again at this pace.
constexpr Nanoseconds relocate_every_ns = 500 * ns_per_ms;

}  // namespace

PaperRules::State& PaperRules::state_of(const Watch& w) {
  return states_.try_emplace(w.comm.uid(), settings_).first->second;
}

void PaperRules::add(Watch& w, State& s, const RoundEntry& e, Nanoseconds now_ns) {
  s.slow.add(w.comm, e, now_ns);
  if (const Signature* signature = e.signature()) w.mix.add(*signature);
}

void PaperRules::take(Watch& w, Nanoseconds now_ns) {
  State& s = state_of(w);
  w.comm.history().visit_complete([&](const RoundEntry& e) { add(w, s, e, now_ns); });
  for (const RoundEntry& e : w.comm.replays().take_complete()) add(w, s, e, now_ns);
}

void PaperRules::look_for_slowness(Watch& w, State& s, Nanoseconds now_ns) {
  take(w, now_ns);
  w.comm.history().visit_overdue(now_ns, [&](const RoundEntry& e) { s.slow.add(w.comm, e, now_ns); });
  s.slow_report = s.slow.advance(w.comm, s.slow_incident != 0, now_ns);
}

void PaperRules::look_for_hang(const Watch& w, State& s, Nanoseconds now_ns) {
  const std::optional<HangView> view = s.hang.check(w.comm, processes_, settings_, now_ns);
  if (view && (!s.stuck || now_ns - s.located_ns >= relocate_every_ns)) {
    s.located_ns = now_ns;
    const Finding f = locate_hang_paper(w.comm, *view);
    s.hang_key = f.key();
    if (!s.stuck) s.moved_ns = w.comm.moved_ns();
    s.stuck = true;
    if (s.hang_incident == 0)
      s.hang_incident = writer_.open(w.comm, f, w.comm.moved_ns(), now_ns);
    else
      writer_.update(s.hang_incident, w.comm, f, now_ns);
    writer_.book().confirm(s.hang_incident, now_ns);
  }
  if (!s.stuck) return;
  if (w.comm.moved_ns() > s.moved_ns && !still_hangs(w.comm, s.hang_key, processes_, settings_))
    return end_hang(s, now_ns);
  s.moved_ns = std::max(s.moved_ns, w.comm.moved_ns());
  if (w.comm.ranks_in_flight() == 0 && w.comm.ranks_in_replay() == 0) end_hang(s, now_ns);
}

void PaperRules::end_hang(State& s, Nanoseconds now_ns) {
  writer_.book().resolve(std::exchange(s.hang_incident, 0), now_ns);
  s.stuck = false;
}

void PaperRules::end_slowness(State& s, Nanoseconds now_ns) {
  writer_.book().resolve(std::exchange(s.slow_incident, 0), now_ns);
}

bool PaperRules::report_slowness(const Watch& w, State& s, Nanoseconds now_ns) {
  const Finding& finding = s.slow_report.finding;
  const Incident* known = writer_.book().find(s.slow_incident);
  if (known && !known->culprits.empty() && !same_cause(known->culprits, finding.culprits)) {
    if (finding.culprits.empty()) return false;
    end_slowness(s, now_ns);
  }
  const bool again = s.slow_incident != 0;
  if (!again) s.slow_incident = writer_.open(w.comm, finding, s.slow_report.onset_ns, now_ns);
  writer_.book().confirm(s.slow_incident, now_ns);
  return again;
}

void PaperRules::advance(Nanoseconds now_ns) {
  std::vector<std::pair<const Watch*, State*>> slow;
  for (auto& [uid, w] : watches_) {
    State& s = state_of(*w);
    look_for_slowness(*w, s, now_ns);
    if (s.slow_report.event != SlowEvent::none) slow.emplace_back(w.get(), &s);
    look_for_hang(*w, s, now_ns);
  }
  for (auto& [w, s] : slow)
    if (s->slow_report.event == SlowEvent::resolve) end_slowness(*s, now_ns);
  std::vector<std::pair<const Watch*, State*>> again;
  for (auto& [w, s] : slow)
    if (s->slow_report.event != SlowEvent::resolve && report_slowness(*w, *s, now_ns)) again.emplace_back(w, s);
  for (auto& [w, s] : again) writer_.update(s->slow_incident, w->comm, s->slow_report.finding, now_ns);
}

void PaperRules::drop(const Watch& w, Nanoseconds now_ns) {
  const auto it = states_.find(w.comm.uid());
  if (it == states_.end()) return;
  end_hang(it->second, now_ns);
  end_slowness(it->second, now_ns);
  states_.erase(it);
}

}  // namespace ccld::decision
