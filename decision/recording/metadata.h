// What a recording says about itself: at its beginning by whom, when and with which settings, at its end how much.
// Contract: as JSON, read strictly: a field that is missing or of another type is an error that names it; unknown fields
// are kept out of the way of newer writers. Errors: one line. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/model/types.h"
#include "decision/report/verdict_json.h"
#include "decision/settings.h"

namespace ccld::decision::recording {

struct Metadata {
  std::string source = "service";  // service: `ccld serve`; sink: `ccld record`; incident: the service about one incident
  std::string version;             // of ccld
  std::string host;                // of the service
  Nanoseconds started_ns = 0;      // of its clock
  int64_t started_realtime_ns = 0;
  // Those that differ from their defaults, rules included, in the order of `ccld settings`.
  std::vector<std::pair<std::string, std::string>> settings;
  Numbering numbering;             // of incidents, so that a replay gives them the numbers that the service gave
  report::Json incident;           // of an incident recording: the verdict, as far as it fits; else null
};

struct Ending {
  uint64_t messages = 0, ticks = 0, missing = 0;
  std::string reason;  // "stopped", "limit"
};

// This program, on this host, now.
Metadata metadata_of(const Settings&, std::string source, Nanoseconds now_ns, int64_t realtime_ns);
// The recorded settings on top of the defaults. One that this version does not know or refuses keeps its default, and a
// line in `warnings` says so: an old recording is worth more than its settings.
Settings settings_of(const Metadata&, std::vector<std::string>& warnings);

// A verdict without its long lists if it is too large for the metadata.
report::Json fitting(report::Json verdict);

report::Json to_json(const Metadata&);
absl::StatusOr<Metadata> parse_metadata(absl::string_view json);
report::Json to_json(const Ending&);
absl::StatusOr<Ending> parse_ending(absl::string_view json);

}  // namespace ccld::decision::recording
