// The status document as a table for people. Errors: nlohmann::json::exception where it is not one. Threads: any.
#pragma once

#include <string>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

// `with_ranks`: one line per rank below each communicator, if the document has them.
std::string status_text(const Json& status, bool with_ranks);

}  // namespace ccld::decision::report
