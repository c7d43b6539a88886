#include "decision/server/acknowledge.h"

#include "absl/strings/str_cat.h"
#include "decision/history/acknowledgements.h"
#include "decision/history/revision.h"
#include "decision/report/text_format.h"
#include "decision/server/incidents_api.h"
#include "decision/server/request_fields.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {

using report::Json;

absl::StatusOr<AcknowledgeRequest> parse_acknowledge_request(const std::string& body) {
  const auto json = parse_request(body);
  if (!json.ok()) return json.status();
  AcknowledgeRequest request;
  for (const auto& [name, value] : json->items()) {
    absl::Status s;
    if (name == "by") s = take_text(name, value, operator_name_bytes_max, request.by);
    else if (name == "note") s = take_text(name, value, operator_note_bytes_max, request.note);
    else if (name == "undo" && value.is_boolean()) request.undo = value.get<bool>();
    else s = absl::InvalidArgumentError(name == "undo" ? "undo is not true or false" : absl::StrCat("field '", name, "' is not known here"));
    if (!s.ok()) return s;
  }
  if (!request.undo && request.by.empty()) return absl::InvalidArgumentError("by is missing: who is on it");
  return request;
}

absl::StatusOr<Json> acknowledge(uint64_t incident, const AcknowledgeRequest& request, int64_t now_ms,
                                 const report::Snapshot& snapshot, Reporter& reporter, absl::Duration timeout,
                                 const AcknowledgementListener& listener) {
  auto verdict = incident_answer(incident, snapshot, reporter);
  if (!verdict.ok()) return verdict.status();
  if (const std::string state = report::text_of(*verdict, "state"); history::is_closed(state)) {
    return absl::FailedPreconditionError(absl::StrCat("incident ", incident, " is ", state, ": there is nothing to acknowledge any more"));
  }
  const report::Acknowledgement a{.time_ms = now_ms, .by = request.by, .note = request.note};
  OperatorBook& book = reporter.book();
  if (request.undo && !book.acknowledgements().contains(incident)) {
    return absl::FailedPreconditionError(absl::StrCat("incident ", incident, " is not acknowledged"));
  }
  const absl::Status status = reporter.change_history(
      [=](history::Database& db) {
        return request.undo ? history::remove_acknowledgement(db, incident) : history::put_acknowledgement(db, incident, a);
      },
      [=, &book] {
        if (request.undo)
          book.withdraw_acknowledgement(incident);
        else
          book.acknowledge(incident, a);
      },
      timeout);
  // The incident is there: it waits for the disk itself.
  if (absl::IsNotFound(status)) return absl::UnavailableError(status.message());
  if (!status.ok()) return status;
  if (request.undo) spdlog::info("incident {}: acknowledgement withdrawn", incident);
  else
    spdlog::info("incident {}: acknowledged by {}", incident, a.by);
  const Json acknowledged = request.undo ? Json(nullptr) : report::acknowledgement_json(a);
  (*verdict)["acknowledged"] = acknowledged;
  listener(*verdict, request.undo, now_ms);
  return Json{{"incident", incident},
              {"acknowledged", acknowledged},
              {"kept", reporter.counters().enabled}};
}

}  // namespace ccld::decision::server
