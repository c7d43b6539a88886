// The folder of incident recordings: incident-<time>-<number>-<class>.ccldrec, bounded by number, size and age.
// Contract: a file appears whole, by renaming. Only files of that name are counted and removed, oldest name first; so
// are unfinished ones of a service that was killed, after an hour. Errors: one line with the path. Threads: one at a
// time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/recording/incident_history.h"
#include "decision/recording/metadata.h"

namespace ccld::decision::recording {

struct IncidentFileLimits {
  uint64_t files_max = 20;
  uint64_t bytes_max = uint64_t{1} << 30;                 // together; the newest stays even if it is larger
  int64_t age_max_ms = int64_t{30} * 24 * 3600 * 1000;    // by the time in the name
};

absl::Status check_incident_folder(const std::string& folder);
// The path of the new file. `now_ms`: since 1970.
absl::StatusOr<std::string> write_incident_file(const std::string& folder, const IncidentFileLimits&, int64_t now_ms, const Metadata&,
                                                const IncidentHistory&, LastWords, Packer&);
void remove_old_incident_files(const std::string& folder, const IncidentFileLimits&, int64_t now_ms);

}  // namespace ccld::decision::recording
