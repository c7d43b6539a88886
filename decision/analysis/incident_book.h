// All incidents, one per cause, and which of them a reader has to be told of again.
//
// Contract: bounded by Settings::incidents_max; the oldest closed ones are forgotten first. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "decision/analysis/told.h"
#include "decision/model/left_open.h"
#include "decision/model/verdict.h"
#include "decision/settings.h"

namespace ccld::decision {

class IncidentBook {
 public:
  explicit IncidentBook(const Settings& settings, Numbering numbering = {})
      : settings_(settings), run_(std::move(numbering.run)), last_id_(numbering.last_id) {}

  // What earlier runs left open: one that begins again keeps its number, onset and revisions.
  void take_up(std::vector<LeftOpen> left) { left_open_ = std::move(left); }

  // Gives it an id and marks it changed. Where there is no room the oldest closed one of which all was told is forgotten,
  // or else the oldest of the job that has most, which is told of once more, as ended. References stay valid until the
  // next open().
  Incident& open(Incident);
  Incident* find(uint64_t id);  // nullptr: 0 or forgotten
  void changed(uint64_t id) { changed_.insert(id), fresh_.insert(id); }
  void confirm(uint64_t id, Nanoseconds now_ns);
  void resolve(uint64_t id, Nanoseconds now_ns) { close(id, VerdictState::resolved, now_ns); }
  // Its job, its communicator or the service has ended before it was resolved.
  void end(uint64_t id, Nanoseconds now_ns) { close(id, VerdictState::ended, now_ns); }

  // Those that have changed in whatever way since the last take_changed().
  template <class F>
  void visit_changed(F&& visit) {
    for (uint64_t id : fresh_)
      if (Incident* i = find(id)) visit(*i);
  }
  // Those that are open, the oldest first.
  template <class F>
  void visit_open(F&& visit) const {
    for (const Incident& i : incidents_)
      if (is_open(i.state)) visit(i);
  }
  // Those that a reader has to be told of (told.h), each with a new revision. The others wait until they are due.
  std::vector<Incident> take_changed(Nanoseconds now_ns);
  std::vector<Incident> all() const { return {incidents_.begin(), incidents_.end()}; }
  uint64_t open_count() const;
  // Of this job, beside these.
  bool any_open(const std::string& job, const std::vector<uint64_t>& but) const;
  bool any_slow_open(const std::string& job, uint64_t but) const;

 private:
  void close(uint64_t id, VerdictState, Nanoseconds now_ns);
  void make_room(Nanoseconds now_ns);

  const Settings& settings_;
  std::string run_;
  uint64_t last_id_ = 0;
  std::vector<LeftOpen> left_open_;
  std::deque<Incident> incidents_;  // by id
  std::map<uint64_t, Told> told_;   // of these
  std::vector<Incident> leaving_;   // forgotten before a reader was told of them
  std::set<uint64_t> changed_;      // since a reader was told of them
  std::set<uint64_t> fresh_;        // since the last take_changed()
};

}  // namespace ccld::decision
