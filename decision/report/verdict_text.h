// A verdict for people: what happens, who causes it, why the service thinks so, who suffers, what to look at next.
// Made from the JSON document, so that `ccld explain` says the same about a running service and about a verdict file.
// Errors: nlohmann::json::exception where the document is not a verdict. Threads: any.
#pragma once

#include <string>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

std::string verdict_text(const Json& verdict);
// One line per incident; newest last. `incidents`: an array of verdicts.
std::string incident_list_text(const Json& incidents);

}  // namespace ccld::decision::report
