// One revision of an incident as the database keeps it: the verdict line, and beside it what incidents are looked up by.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision/model/left_open.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::history {

struct Revision {
  uint64_t incident = 0;
  uint32_t number = 0;   // counts from 1
  int64_t time_ms = 0;   // since 1970, when it was made
  std::string run, job, fault_class, state;
  bool open = false;     // neither resolved nor ended
  std::string line;      // the verdict as JSON
};

// Whether it is an object with a number and a revision: a line of the database may have been edited by hand.
bool is_verdict(const report::Json&);
// Nothing if it is no verdict, or has no time.
std::optional<Revision> revision_of(const report::Json& verdict);

// Whether nothing more is expected of an incident in this state.
bool is_closed(const std::string& state);

// Milliseconds since 1970 of "2026-01-31T12:00:00.123Z"; nothing if it is no such time, or beyond 2262.
std::optional<int64_t> time_ms_of(const std::string& rfc3339);

// What is left to do about an incident whose service is gone.
constexpr char ended_reason[] = "the service ended before the incident did: look whether the job still shows it";

// The last revision of an incident that a run of the service left open, made at `now_ms` from the newest one that it reported.
report::Json ended_verdict(report::Json newest, int64_t now_ms);

// What a later run needs to take the incident up; instants on the clock of that run. Nothing if the line cannot be read.
std::optional<LeftOpen> left_open_of(const report::Json& newest, const report::WallClock&);
// Of several; without those that cannot be read: they are not found again, and end.
std::vector<LeftOpen> all_left_open_of(const std::vector<report::Json>& newest, const report::WallClock&);

}  // namespace ccld::decision::history
