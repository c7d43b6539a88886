// What `ccld import` says: the verdicts as `ccld explain` says them, notes, and what the data cannot show.
// Threads: any.
#pragma once

#include <string>

#include "decision/import/findings.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::dumps {

// {"source", "summary", "incidents": verdicts as everywhere with "source" added, "notes", "not_shown"}
report::Json findings_json(const Findings&);
// `evidence`: as in report/verdict_text.h. Ends with the line "Not shown by these data: ...".
std::string findings_text(const Findings&, bool evidence);

}  // namespace ccld::decision::dumps
