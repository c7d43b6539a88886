// What to do about an incident, for people: from the field `mitigation` of its document (mitigation.h).
// Errors: nlohmann::json::exception where the document is not a verdict. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/verdict_text.h"

namespace ccld::decision::report {

// A page of its own: what is lost, what to do first and what next, what is not possible and why.
std::string mitigation_text(const Json& verdict);
// In short, for a longer page: the first action that is possible, and where to read of others. Empty: nothing to say.
std::vector<std::string> mitigation_summary(const Json& verdict);

}  // namespace ccld::decision::report
