#include "decision/webhook/delivery.h"

#include "absl/strings/str_cat.h"
#include "decision/history/revision.h"
#include "decision/report/text_format.h"

namespace ccld::decision::webhook {
namespace {

using report::Json;

// Numbers of incidents begin anew where a history was lost; with the run that gave the number they do not repeat.
std::string revision_id(const Json& verdict) {
  return absl::StrCat(report::text_of(verdict, "run"), "-", report::number_of(verdict, "incident"), "-", report::number_of(verdict, "revision"));
}

Delivery delivery_of(const Json& verdict, const std::string& run, Event event, std::string id, int64_t made_ms) {
  Delivery d;
  d.id = std::move(id);
  d.event = event;
  d.incident = report::number_of(verdict, "incident");
  d.revision = report::number_of(verdict, "revision");
  d.made_ms = made_ms;
  d.facts = report::silence_facts(verdict);
  d.body = report::to_line({{"event", name(event)}, {"delivery", d.id}, {"run", run}, {"incident", verdict}});
  return d;
}

}  // namespace

const char* name(Event event) {
  switch (event) {
    case Event::revised: return "incident.revised";
    case Event::closed: return "incident.closed";
    case Event::acknowledged: return "incident.acknowledged";
    case Event::unacknowledged: return "incident.unacknowledged";
  }
  return "";
}

bool is_told(const Json& verdict, MinState min) {
  return min == MinState::suspected || report::text_of(verdict, "state") == "confirmed" || report::has(verdict, "confirmed_ms");
}

Delivery revision_delivery(const Json& verdict, const std::string& run) {
  const bool closed = history::is_closed(report::text_of(verdict, "state"));
  return delivery_of(verdict, run, closed ? Event::closed : Event::revised, revision_id(verdict),
                     history::time_ms_of(report::text_of(verdict, "time")).value_or(0));
}

Delivery acknowledgement_delivery(const Json& verdict, const std::string& run, bool withdrawn, int64_t time_ms) {
  return delivery_of(verdict, run, withdrawn ? Event::unacknowledged : Event::acknowledged,
                     absl::StrCat(revision_id(verdict), withdrawn ? "-unack-" : "-ack-", time_ms), time_ms);
}

}  // namespace ccld::decision::webhook
