// Acknowledgements in the history: one row for each incident that somebody has acknowledged; it goes with its incident.
// Errors: as sqlite.h; NotFound: the incident is not in the database. Threads: as the database.
#pragma once

#include "absl/status/statusor.h"
#include "decision/history/sqlite.h"
#include "decision/report/acknowledgement.h"

namespace ccld::decision::history {

absl::Status put_acknowledgement(Database&, uint64_t incident, const report::Acknowledgement&);  // in the place of an earlier one
absl::Status remove_acknowledgement(Database&, uint64_t incident);                               // also where there is none
absl::StatusOr<report::Acknowledgements> acknowledgements_of_open(Database&);

// Columns `ack_ms`, `ack_by` and `ack_note` for a SELECT that joins the table by this; ack_ms is NULL where there is none.
constexpr char acknowledgement_columns[] = "acknowledgements.time_ms AS ack_ms, acknowledgements.by AS ack_by, acknowledgements.note AS ack_note";
// The three columns that begin at `column`, as the document has them.
report::Json acknowledgement_of(const Statement& row, int column);

}  // namespace ccld::decision::history
