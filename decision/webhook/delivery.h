// One message to the webhook's receiver: an incident as /v1/incidents has it, and what happened to it.
//   {"event", "delivery", "run", "incident": {...}}
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "decision/report/silence.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::webhook {

enum class MinState { suspected, confirmed };

enum class Event { revised, closed, acknowledged, unacknowledged };
const char* name(Event);  // "incident.revised"

struct Delivery {
  std::string id;         // the same for each attempt, and after a restart of the service
  Event event = Event::revised;
  uint64_t incident = 0;
  uint64_t revision = 0;
  std::string body;
  report::SilenceFacts facts;
  int64_t made_ms = 0;    // since 1970, of the revision
};

// Whether the receiver is told of this verdict: one that never was confirmed may not be of interest.
bool is_told(const report::Json& verdict, MinState);

// `verdict`: with `recording` and `acknowledged`. `run`: this run of the service, which sends it.
Delivery revision_delivery(const report::Json& verdict, const std::string& run);
// That somebody has acknowledged it at `time_ms`, or has withdrawn that.
Delivery acknowledgement_delivery(const report::Json& verdict, const std::string& run, bool withdrawn, int64_t time_ms);

}  // namespace ccld::decision::webhook
