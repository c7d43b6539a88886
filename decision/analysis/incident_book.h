// All incidents, one per cause, and which of them a reader has to be told of again.
//
// One of several services leads: only its numbers are told. The others follow: they give numbers of their own, which
// nobody is told, until they lead.
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

  // From now on this service tells its incidents. Those that are open get the number under which the service that led
  // until now has told them (`left`), else the next one, and are told anew; so are those that have ended since. Others
  // that have ended are forgotten. What is left of `left` is taken up as above.
  void lead(Numbering, std::vector<LeftOpen> left);
  // From now on another one does.
  void follow();

  // Gives it an id and marks it changed. Where there is no room the oldest closed one of which all was told is forgotten,
  // or else the oldest of the job that has most, which is told of once more, as ended. References stay valid until the
  // next open().
  Incident& open(Incident);
  // Incidents by handle.
  Incident* find(uint64_t handle);  // nullptr: 0 or forgotten
  void changed(uint64_t handle) { changed_.insert(handle), fresh_.insert(handle); }
  void confirm(uint64_t handle, Nanoseconds now_ns);
  void resolve(uint64_t handle, Nanoseconds now_ns) { close(handle, VerdictState::resolved, now_ns); }
  // Its job, its communicator or the service has ended before it was resolved.
  void end(uint64_t handle, Nanoseconds now_ns) { close(handle, VerdictState::ended, now_ns); }

  // Those that have changed in whatever way since the last take_changed().
  template <class F>
  void visit_changed(F&& visit) {
    for (uint64_t handle : fresh_)
      if (Incident* i = find(handle)) visit(*i);
  }
  // Those that are open, the oldest first.
  template <class F>
  void visit_open(F&& visit) const {
    for (const Incident& i : incidents_)
      if (is_open(i.state)) visit(i);
  }
  // Those that a reader has to be told of (told.h), each with a new revision. The others wait until they are due.
  std::vector<Incident> take_changed(Nanoseconds now_ns);
  std::vector<Incident> all() const;  // by number
  uint64_t open_count() const;
  // Of this job, beside these (handles).
  bool any_open(const std::string& job, const std::vector<uint64_t>& but) const;
  bool any_slow_open(const std::string& job, uint64_t but) const;

 private:
  void close(uint64_t handle, VerdictState, Nanoseconds now_ns);
  void make_room(Nanoseconds now_ns);
  std::vector<LeftOpen>::iterator left_as(const Incident&);
  void go_on(Incident&, std::vector<LeftOpen>::iterator left);
  void give_number(Incident&);

  const Settings& settings_;
  std::string run_;
  uint64_t last_id_ = 0;
  uint64_t own_number_ = 0;  // the highest handle so far
  std::vector<LeftOpen> left_open_;
  std::deque<Incident> incidents_;  // by handle
  std::map<uint64_t, Told> told_;   // of these
  std::vector<Incident> leaving_;   // forgotten before a reader was told of them
  std::set<uint64_t> changed_;      // since a reader was told of them
  std::set<uint64_t> fresh_;        // since the last take_changed()
};

}  // namespace ccld::decision
