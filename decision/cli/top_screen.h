// What `ccld top` shows, as lines: jobs, open incidents, communicators, the troubled first, cut to a screen.
// Pure. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/verdict_json.h"

namespace ccld::decision {

// `status`: of /v1/status; `incidents`: of /v1/incidents, the open ones at least. At most `rows` lines of at most `columns`.
// Errors: nlohmann::json::exception where the documents are not these.
std::vector<std::string> top_screen(const report::Json& status, const report::Json& incidents, size_t columns, size_t rows);

}  // namespace ccld::decision
