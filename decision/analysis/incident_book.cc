#include "decision/analysis/incident_book.h"

#include <algorithm>

namespace ccld::decision {

Incident& IncidentBook::open(Incident incident) {
  if (incidents_.size() >= settings_.incidents_max) {
    auto it = std::find_if(incidents_.begin(), incidents_.end(),
                           [](const Incident& i) { return i.state == VerdictState::resolved; });
    if (it == incidents_.end()) it = incidents_.begin();
    changed_.erase(it->id);
    incidents_.erase(it);
  }
  incident.id = ++last_id_;
  changed_.insert(incident.id);
  incidents_.push_back(std::move(incident));
  return incidents_.back();
}

Incident* IncidentBook::find(uint64_t id) {
  auto it = std::lower_bound(incidents_.begin(), incidents_.end(), id,
                             [](const Incident& i, uint64_t v) { return i.id < v; });
  return it != incidents_.end() && it->id == id ? &*it : nullptr;
}

void IncidentBook::confirm(uint64_t id, Nanoseconds now_ns) {
  Incident* i = find(id);
  if (!i || i->state != VerdictState::suspected) return;
  i->state = VerdictState::confirmed;
  i->confirmed_ns = now_ns;
  changed(id);
}

void IncidentBook::resolve(uint64_t id, Nanoseconds now_ns) {
  Incident* i = find(id);
  if (!i || i->state == VerdictState::resolved) return;
  i->state = VerdictState::resolved;
  i->resolved_ns = now_ns;
  changed(id);
}

std::vector<Incident> IncidentBook::take_changed() {
  std::vector<Incident> out;
  for (uint64_t id : changed_)
    if (const Incident* i = find(id)) out.push_back(*i);
  changed_.clear();
  return out;
}

bool IncidentBook::any_open(const std::string& job, const std::vector<uint64_t>& but) const {
  return std::any_of(incidents_.begin(), incidents_.end(),
                     [&](const Incident& i) {
    return i.job == job && i.state != VerdictState::resolved && std::find(but.begin(), but.end(), i.id) == but.end();
  });
}

bool IncidentBook::any_slow_open(const std::string& job, uint64_t but) const {
  return std::any_of(incidents_.begin(), incidents_.end(), [&](const Incident& i) {
    return i.job == job && i.state != VerdictState::resolved && i.id != but &&
           i.fault >= FaultClass::s1_computation_slow;
  });
}

uint64_t IncidentBook::open_count() const {
  return std::count_if(incidents_.begin(), incidents_.end(),
                       [](const Incident& i) { return i.state != VerdictState::resolved; });
}

}  // namespace ccld::decision
