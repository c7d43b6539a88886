// The tables of the history database, and which versions of them this program can use.
//
//   runs        one row per run of the service: its id, when it began and whether it ended by itself
//   incidents   one row per incident: what it is looked up by, its newest revision, its recording
//   revisions   one row per revision: the verdict line as it was reported
//   numbers     last_id: the highest number ever given, also of incidents that were removed since; log_made,
//               log_applied: how far a cluster's log has been applied (log_position.h)
//   acknowledgements   (from version 2 on) who is on an incident
//   deliveries  (from version 3 on) the newest revision of an incident that the webhook's receiver has
//   silences    (from version 4 on) those that have not ended
//
// A service brings an older database to its own version; a reader takes it as it is.
// Errors: FailedPrecondition, a newer version or another program's database; it is left as it is. Threads: any.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decision/history/sqlite.h"

namespace ccld::decision::history {

constexpr int64_t schema_version = 4;
constexpr int64_t version_with_acknowledgements = 2;

// Makes the tables that are missing, in an empty database all of them.
absl::Status prepare_schema(Database&);
// The version of a database that this program can read: 1 to schema_version.
absl::StatusOr<int64_t> check_schema(Database&);

}  // namespace ccld::decision::history
