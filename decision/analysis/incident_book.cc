#include "decision/analysis/incident_book.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {

void IncidentBook::make_room(Nanoseconds now_ns) {
  if (incidents_.size() < settings_.incidents_max) return;
  auto it = std::find_if(incidents_.begin(), incidents_.end(),
                         [&](const Incident& i) { return !is_open(i.state) && !changed_.contains(i.id); });
  if (it == incidents_.end())
    it = std::find_if(incidents_.begin(), incidents_.end(), [](const Incident& i) { return !is_open(i.state); });
  if (it == incidents_.end()) {
    absl::flat_hash_map<std::string_view, size_t> of_jobs;
    for (const Incident& i : incidents_) ++of_jobs[i.job];
    it = std::max_element(incidents_.begin(), incidents_.end(), [&](const Incident& a, const Incident& b) { return of_jobs[a.job] < of_jobs[b.job]; });
  }
  if (is_open(it->state)) close(it->id, VerdictState::ended, now_ns);
  fresh_.erase(it->id);
  told_.erase(it->id);
  if (changed_.erase(it->id) > 0) {
    ++it->revision;
    leaving_.push_back(std::move(*it));
  }
  incidents_.erase(it);
}

Incident& IncidentBook::open(Incident incident) {
  make_room(incident.suspected_ns);  // which is now
  const auto left = std::find_if(left_open_.begin(), left_open_.end(), [&](const LeftOpen& l) { return is_same_incident(l, incident); });
  if (left == left_open_.end()) {
    incident.id = ++last_id_;
    incident.run = run_;
  } else {
    incident.id = left->id;
    incident.run = left->run;
    incident.revision = left->revision;
    if (left->onset_ns != 0) incident.onset_ns = left->onset_ns;
    if (left->suspected_ns != 0) incident.suspected_ns = left->suspected_ns;
    left_open_.erase(left);
  }
  changed(incident.id);
  const auto place = std::upper_bound(incidents_.begin(), incidents_.end(), incident.id, [](uint64_t v, const Incident& i) { return v < i.id; });
  return *incidents_.insert(place, std::move(incident));
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

void IncidentBook::close(uint64_t id, VerdictState state, Nanoseconds now_ns) {
  Incident* i = find(id);
  if (!i || !is_open(i->state)) return;
  i->state = state;
  i->resolved_ns = now_ns;
  if (state == VerdictState::ended) i->next_step = "The job or the communicator ended while this was open: look at how it ended.";
  changed(id);
}

std::vector<Incident> IncidentBook::take_changed(Nanoseconds now_ns) {
  std::vector<Incident> out = std::exchange(leaving_, {});
  std::erase_if(changed_, [&](uint64_t id) {
    Incident* i = find(id);
    if (!i) return true;
    Told& told = told_[id];
    if (!told.is_due(*i, now_ns, settings_)) return told.says_all(*i, settings_);
    ++i->revision;
    told.remember(*i, now_ns, settings_);
    out.push_back(*i);
    return true;
  });
  fresh_.clear();
  return out;
}

bool IncidentBook::any_open(const std::string& job, const std::vector<uint64_t>& but) const {
  return std::any_of(incidents_.begin(), incidents_.end(), [&](const Incident& i) {
    return i.job == job && is_open(i.state) && std::find(but.begin(), but.end(), i.id) == but.end();
  });
}

bool IncidentBook::any_slow_open(const std::string& job, uint64_t but) const {
  return std::any_of(incidents_.begin(), incidents_.end(), [&](const Incident& i) {
    return i.job == job && is_open(i.state) && i.id != but && i.fault >= FaultClass::s1_computation_slow;
  });
}

uint64_t IncidentBook::open_count() const {
  return std::count_if(incidents_.begin(), incidents_.end(), [](const Incident& i) { return is_open(i.state); });
}

}  // namespace ccld::decision
