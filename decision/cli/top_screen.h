// What `ccld top` shows, as lines: open incidents, jobs, communicators, the troubled first, cut to a screen.
// Pure. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/verdict_json.h"

namespace ccld::decision {

// `status`: of /v1/status. At most `rows` lines of at most `columns`.
// Errors: nlohmann::json::exception where the document is not this one.
std::vector<std::string> top_screen(const report::Json& status, size_t columns, size_t rows);

}  // namespace ccld::decision
