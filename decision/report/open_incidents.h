// Open incidents in short, for the status: who and what in the words of their titles, the confirmed ones first, then
// the newest. Threads: any.
#pragma once

#include <optional>
#include <string>

#include "decision/report/status_json.h"

namespace ccld::decision::report {

// Rows of `incident`, `class`, `kind`, `title`, `job`, `state`, `acknowledged`, `silenced`; at most `rows_max`.
// `job`: of one job only.
Json open_incidents_json(const Snapshot&, const std::optional<std::string>& job, size_t rows_max);

// A line each, of the rows above; empty where there are none. `open`: how many there are in all.
std::string open_incidents_text(const Json& rows, uint64_t open, size_t columns);

}  // namespace ccld::decision::report
