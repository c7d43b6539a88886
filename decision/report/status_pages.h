// The documents of the query API about jobs, communicators, ranks and processes: a summary, and lists in pages. No
// document grows with the number of ranks. README.md of this folder documents the schema.
//
// A list has `next`: what to give as `after` for the page that follows, or null at its end.
// Errors: InvalidArgument for an `after` that no page gave, NotFound for what is not known; one line. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/report/page_query.h"
#include "decision/report/status_index.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

// /v1/status: the summary, jobs, one page of communicators, and processes that are silent or whose probe was stopped
// (with `ranks`: all processes, and the ranks of these communicators, together at most page_rows_max).
absl::StatusOr<Json> status_json(const Snapshot&, const StatusIndex&, const PageQuery&);
// The same of a small job, without paging.
Json status_json(const Snapshot&, bool all_ranks);

absl::StatusOr<Json> jobs_json(const Snapshot&, const StatusIndex&, const PageQuery&);
// A job with a page of its communicators and the open incidents.
absl::StatusOr<Json> job_json(const Snapshot&, const StatusIndex&, const std::string& job, const PageQuery&);
absl::StatusOr<Json> communicators_json(const Snapshot&, const StatusIndex&, const PageQuery&);
absl::StatusOr<Json> communicator_json(const Snapshot&, const StatusIndex&, const std::string& id);
absl::StatusOr<Json> ranks_json(const Snapshot&, const StatusIndex&, const std::string& id, const PageQuery&);
absl::StatusOr<Json> processes_json(const Snapshot&, const StatusIndex&, const PageQuery&);

}  // namespace ccld::decision::report
