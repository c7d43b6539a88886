// An incident as JSON: the line of the verdict file and the answer of /v1/incidents/<id>. README.md of this folder
// documents the schema; fields are only ever appended.
// Threads: any.
#pragma once

#include <string>

#include "decision/model/verdict.h"
#include "decision/report/wall_clock.h"
#include "nlohmann/json.hpp"

namespace ccld::decision::report {

// Keys keep the order in which they are documented.
using Json = nlohmann::ordered_json;

Json verdict_json(const Incident&, Nanoseconds now_ns, const WallClock&);
Json operation_json(const Signature&);
std::string comm_text(CommUid);  // 16 hexadecimal digits

// One line without line feed. Bytes that are not UTF-8 are replaced, never an error.
std::string to_line(const Json&);

}  // namespace ccld::decision::report
