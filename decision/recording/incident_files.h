// The folder of incident recordings: incident-<time>-<number>-<class>.ccldrec, a bounded number of them.
// Contract: a file appears whole, by renaming. Only files of that name are counted and removed, oldest name first.
// Errors: one line with the path. Threads: one at a time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/recording/incident_history.h"
#include "decision/recording/metadata.h"

namespace ccld::decision::recording {

absl::Status check_incident_folder(const std::string& folder);
// The path of the new file.
absl::StatusOr<std::string> write_incident_file(const std::string& folder, uint64_t files_max, const Metadata&, const IncidentHistory&,
                                                LastWords, Packer&);

}  // namespace ccld::decision::recording
