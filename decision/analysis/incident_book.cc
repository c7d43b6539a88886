#include "decision/analysis/incident_book.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {

void IncidentBook::make_room(Nanoseconds now_ns) {
  if (incidents_.size() < settings_.incidents_max) return;
  auto it = std::find_if(incidents_.begin(), incidents_.end(),
                         [&](const Incident& i) { return !is_open(i.state) && !changed_.contains(i.handle); });
  if (it == incidents_.end())
    it = std::find_if(incidents_.begin(), incidents_.end(), [](const Incident& i) { return !is_open(i.state); });
  if (it == incidents_.end()) {
    absl::flat_hash_map<std::string_view, size_t> of_jobs;
    for (const Incident& i : incidents_) ++of_jobs[i.job];
    it = std::max_element(incidents_.begin(), incidents_.end(), [&](const Incident& a, const Incident& b) { return of_jobs[a.job] < of_jobs[b.job]; });
  }
  if (is_open(it->state)) close(it->handle, VerdictState::ended, now_ns);
  fresh_.erase(it->handle);
  told_.erase(it->handle);
  if (changed_.erase(it->handle) > 0) {
    ++it->revision;
    leaving_.push_back(std::move(*it));
  }
  incidents_.erase(it);
}

std::vector<LeftOpen>::iterator IncidentBook::left_as(const Incident& incident) {
  return std::find_if(left_open_.begin(), left_open_.end(), [&](const LeftOpen& l) { return is_same_incident(l, incident); });
}

void IncidentBook::go_on(Incident& incident, std::vector<LeftOpen>::iterator left) {
  incident.id = left->id;
  incident.run = left->run;
  incident.revision = left->revision;
  if (left->onset_ns != 0) incident.onset_ns = left->onset_ns;
  if (left->suspected_ns != 0) incident.suspected_ns = left->suspected_ns;
  left_open_.erase(left);
}

void IncidentBook::give_number(Incident& incident) {
  if (const auto left = left_as(incident); left != left_open_.end()) return go_on(incident, left);
  incident.id = ++last_id_;
  incident.run = run_;
}

void IncidentBook::lead(Numbering numbering, std::vector<LeftOpen> left) {
  run_ = std::move(numbering.run);
  last_id_ = numbering.last_id;
  left_open_ = std::move(left);
  for (const LeftOpen& l : left_open_) last_id_ = std::max(last_id_, l.id);
  leaving_.clear();
  changed_.clear(), fresh_.clear(), told_.clear();
  std::vector<Incident*> open, others;
  for (Incident& i : incidents_) {
    // One that this service has told before.
    const auto told = std::find_if(left_open_.begin(), left_open_.end(), [&](const LeftOpen& l) { return l.id == i.id && l.run == i.run; });
    if (told != left_open_.end()) {
      go_on(i, told);
      changed(i.handle);
    } else {
      (is_open(i.state) ? open : others).push_back(&i);
    }
  }
  for (Incident* i : open) {
    i->revision = 0;
    give_number(*i);
    changed(i->handle);
  }
  // The newest first: of several in one communicator the last one is still open elsewhere.
  std::for_each(others.rbegin(), others.rend(), [&](Incident* i) {
    const auto ended_since = left_as(*i);
    if (ended_since == left_open_.end()) return;
    go_on(*i, ended_since);
    changed(i->handle);
  });
  std::erase_if(incidents_, [&](const Incident& i) { return !changed_.contains(i.handle); });
}

void IncidentBook::follow() {
  run_.clear();
  left_open_.clear();
  own_number_ = std::max(own_number_, told_ids_end);
  last_id_ = own_number_;
}

Incident& IncidentBook::open(Incident incident) {
  make_room(incident.suspected_ns);  // which is now
  give_number(incident);
  // Above all others: one that is taken up may have the number that another one had, of which nobody was told.
  incident.handle = std::max(incident.id, own_number_ + 1);
  own_number_ = std::max(own_number_, incident.handle);
  changed(incident.handle);
  const auto place = std::upper_bound(incidents_.begin(), incidents_.end(), incident.handle, [](uint64_t v, const Incident& i) { return v < i.handle; });
  return *incidents_.insert(place, std::move(incident));
}

Incident* IncidentBook::find(uint64_t handle) {
  auto it = std::lower_bound(incidents_.begin(), incidents_.end(), handle,
                             [](const Incident& i, uint64_t v) { return i.handle < v; });
  return it != incidents_.end() && it->handle == handle ? &*it : nullptr;
}

void IncidentBook::confirm(uint64_t handle, Nanoseconds now_ns) {
  Incident* i = find(handle);
  if (!i || i->state != VerdictState::suspected) return;
  i->state = VerdictState::confirmed;
  i->confirmed_ns = now_ns;
  changed(handle);
}

void IncidentBook::close(uint64_t handle, VerdictState state, Nanoseconds now_ns) {
  Incident* i = find(handle);
  if (!i || !is_open(i->state)) return;
  // What was certain is still to be mended.
  const bool open_question = i->state == VerdictState::suspected;
  i->state = state;
  i->resolved_ns = now_ns;
  if (state == VerdictState::ended && open_question)
    i->next_step = "The job or the communicator ended while this was open: look at how it ended.";
  changed(handle);
}

std::vector<Incident> IncidentBook::take_changed(Nanoseconds now_ns) {
  std::vector<Incident> out = std::exchange(leaving_, {});
  std::erase_if(changed_, [&](uint64_t handle) {
    Incident* i = find(handle);
    if (!i) return true;
    Told& told = told_[handle];
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
    return i.job == job && is_open(i.state) && std::find(but.begin(), but.end(), i.handle) == but.end();
  });
}

bool IncidentBook::any_slow_open(const std::string& job, uint64_t but) const {
  return std::any_of(incidents_.begin(), incidents_.end(), [&](const Incident& i) {
    return i.job == job && is_open(i.state) && i.handle != but && i.fault >= FaultClass::s1_computation_slow;
  });
}

std::vector<Incident> IncidentBook::all() const {
  std::vector<Incident> all(incidents_.begin(), incidents_.end());
  const auto by_number = [](const Incident& a, const Incident& b) { return a.id < b.id; };
  if (!std::is_sorted(all.begin(), all.end(), by_number)) std::sort(all.begin(), all.end(), by_number);
  return all;
}

uint64_t IncidentBook::open_count() const {
  return std::count_if(incidents_.begin(), incidents_.end(), [](const Incident& i) { return is_open(i.state); });
}

}  // namespace ccld::decision
