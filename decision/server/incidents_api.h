// Answers about incidents, of this run and of earlier ones: from the history, and what its disk has refused from
// memory. Without a history, and while its disk hangs, of this run from the newest snapshot. Errors: InvalidArgument
// names the parameter; NotFound: no such incident; Unavailable: the disk hangs, so nobody can say. Threads: any.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "decision/report/status_json.h"
#include "decision/server/reporter.h"

namespace ccld::decision::server {

// GET /v1/incidents: {"time", "incidents", "matching", "next"}. `parameter(name)`: empty if it is not given (history/filter.h).
absl::StatusOr<report::Json> incidents_answer(const std::function<std::string(const std::string&)>& parameter, const report::Snapshot&,
                                              const Reporter&);
// GET /v1/incidents/<id>: the newest verdict; of an open one with "now".
absl::StatusOr<report::Json> incident_answer(uint64_t id, const report::Snapshot&, const Reporter&);
// GET /v1/incidents/<id>?revisions=1: {"incident", "revisions"}, first one first; without a history the newest only.
absl::StatusOr<report::Json> revisions_answer(uint64_t id, const report::Snapshot&, const Reporter&);

}  // namespace ccld::decision::server
