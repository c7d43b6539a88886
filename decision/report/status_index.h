// Orders a snapshot for people: jobs and communicators, the troubled ones first, and the counts that a summary needs.
// Holds positions in the snapshot, not copies of what is there, so that it is small beside it. Made once for a snapshot,
// by the first question about it.
// Contract: O(ranks + processes). Valid for the snapshot that it was made of. Threads: any, once made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

// In the order in which people should look. A communicator that is none of the first four is busy or idle; a job is
// either or neither (`idle` stands for a job without trouble, too: its name there is "ok").
enum class Trouble : uint8_t {
  confirmed,  // an open incident that is confirmed names it
  suspected,  // an open incident that is suspected names it
  victim,     // it waits for the cause of an incident of another communicator
  silent,     // a process of it is silent
  busy,       // operations, Sends or Recvs in flight
  idle,
  ended,  // of a job: all its processes have
};
constexpr size_t trouble_count = 7;
const char* name(Trouble);                                // "confirmed" .. "busy", "idle", "ended"
std::optional<Trouble> trouble_of(absl::string_view name);
constexpr bool troubled(Trouble t) { return t < Trouble::busy; }

struct JobRow {
  std::string job;
  Trouble state = Trouble::idle;
  uint64_t incidents_open = 0, incidents_confirmed = 0;
  uint64_t processes = 0, silent = 0, ended = 0, probes_stopped = 0;
  uint64_t in_flight = 0;             // communicators with operations, Sends or Recvs in flight
  Nanoseconds oldest_age_ns = 0;      // of the oldest operation or call in flight
  std::vector<uint32_t> communicators;  // positions in StatusView::communicators, the troubled first, then by id
};

class StatusIndex {
 public:
  explicit StatusIndex(const Snapshot&);

  const std::vector<JobRow>& jobs() const { return jobs_; }  // the troubled first, then by name
  const JobRow* job(absl::string_view) const;
  // Positions in StatusView::communicators, the troubled first, then by id.
  const std::vector<uint32_t>& communicators() const { return communicators_; }
  Trouble state(uint32_t communicator) const { return states_[communicator]; }
  const std::array<uint64_t, trouble_count>& communicators_by_state() const { return by_state_; }

  uint64_t silent = 0, ended = 0, probes_stopped = 0, queues_in_flight = 0, queues_stuck = 0, requests_in_flight = 0, undelivered = 0;

 private:
  std::vector<JobRow> jobs_;
  std::vector<uint32_t> communicators_;
  std::vector<Trouble> states_;  // by position in StatusView::communicators
  std::array<uint64_t, trouble_count> by_state_{};
};

}  // namespace ccld::decision::report
