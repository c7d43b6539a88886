// All incidents, one per cause, and which of them have changed since they were last handed out.
//
// Contract: bounded by Settings::incidents_max; the oldest resolved ones are forgotten first. Not thread-safe.
#pragma once

#include <deque>
#include <set>
#include <vector>

#include "decision/model/verdict.h"
#include "decision/settings.h"

namespace ccld::decision {

class IncidentBook {
 public:
  explicit IncidentBook(const Settings& settings) : settings_(settings) {}

  // Gives it an id and marks it changed. References stay valid until the next open().
  Incident& open(Incident);
  Incident* find(uint64_t id);  // nullptr: 0 or forgotten
  void changed(uint64_t id) { changed_.insert(id); }
  void confirm(uint64_t id, Nanoseconds now_ns);
  void resolve(uint64_t id, Nanoseconds now_ns);

  // Those that the next take_changed() hands out.
  template <class F>
  void visit_changed(F&& visit) {
    for (uint64_t id : changed_)
      if (Incident* i = find(id)) visit(*i);
  }
  std::vector<Incident> take_changed();
  std::vector<Incident> all() const { return {incidents_.begin(), incidents_.end()}; }
  uint64_t open_count() const;
  // Of this job, beside these.
  bool any_open(const std::string& job, const std::vector<uint64_t>& but) const;
  bool any_slow_open(const std::string& job, uint64_t but) const;

 private:
  const Settings& settings_;
  uint64_t last_id_ = 0;
  std::deque<Incident> incidents_;  // by id
  std::set<uint64_t> changed_;
};

}  // namespace ccld::decision
