// That somebody is on an incident: who said so, when, and a note for others. Operators acknowledge; the analysis never reads it.
// In documents of incidents it is `acknowledged`: null, or {"time", "by", "note"}.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

struct Acknowledgement {
  int64_t time_ms = 0;  // since 1970
  std::string by;       // as the client said; nobody checks it
  std::string note;     // may be empty
};
using Acknowledgements = std::map<uint64_t, Acknowledgement>;  // by incident

Json acknowledgement_json(const Acknowledgement&);
// Sets `acknowledged` of a verdict to what is known of its incident, or null.
void set_acknowledged(Json& verdict, const Acknowledgements&);

// "by alice, 2026-01-31T12:00:00.000Z: swapping the cable"; empty: nobody has.
std::string acknowledged_text(const Json& verdict);
// "confirmed, acknowledged, silenced"; of a closed incident its state alone.
std::string state_text(const Json& verdict);

}  // namespace ccld::decision::report
