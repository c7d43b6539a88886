// How far a node of a cluster has applied the common log (cluster/README.md). It is written in the transaction that
// applies the entries, so it goes where the database goes: into a copy, and away with a damaged one.
//
//   numbers: log_made      when the log was made, in nanoseconds: which log it is
//            log_applied   the newest entry of it up to which all are applied
//
// Errors: as sqlite.h. Threads: as the database.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decision/history/sqlite.h"

namespace ccld::decision::history {

struct LogPosition {
  int64_t made_ns = 0;
  uint64_t entry = 0;  // 0: nothing of it
  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

inline bool is_next(const LogPosition& entry, const LogPosition& after) {
  return entry.made_ns == after.made_ns && entry.entry == after.entry + 1;
}

absl::StatusOr<LogPosition> log_position_of(Database&);  // {0, 0}: of no log
absl::Status set_log_position(Database&, const LogPosition&);
// An entry of this node's own is in the database. False: the one before it is not, so both are to be applied again.
absl::StatusOr<bool> advance_log_position(Database&, const LogPosition& entry);

}  // namespace ccld::decision::history
