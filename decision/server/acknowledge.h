// POST /v1/incidents/<id>/ack: an operator is on an open incident, or is not any more.
// Threads: any; waits for the disk, at most for a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "decision/report/status_json.h"
#include "decision/server/reporter.h"

namespace ccld::decision::server {

// As long as a name of a job may be, and some lines: what is shown beside an incident, not a report.
constexpr size_t operator_name_bytes_max = 64;
constexpr size_t operator_note_bytes_max = 500;

struct AcknowledgeRequest {
  std::string by, note;
  bool undo = false;
};

// {"by", "note"?} or {"undo": true}. Errors: InvalidArgument names the field.
absl::StatusOr<AcknowledgeRequest> parse_acknowledge_request(const std::string& body);

// `verdict`: as it is now, with `acknowledged`.
using AcknowledgementListener = std::function<void(const report::Json& verdict, bool withdrawn, int64_t time_ms)>;

// {"incident", "acknowledged", "kept"}: kept is false where no history is. Comes back when it is on the disk.
// Errors: NotFound: no such incident; FailedPrecondition: closed, or nothing to undo; Unavailable: the disk does not take it.
absl::StatusOr<report::Json> acknowledge(
    uint64_t incident, const AcknowledgeRequest&, int64_t now_ms, const report::Snapshot&, Reporter&,
    absl::Duration timeout, const AcknowledgementListener& listener = [](const report::Json&, bool, int64_t) {});

}  // namespace ccld::decision::server
