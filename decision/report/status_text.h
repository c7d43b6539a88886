// The status document for people. It says nothing that the JSON does not, and fits the width it is given.
// Errors: nlohmann::json::exception where the document is not a status. Threads: any.
#pragma once

#include <string>

#include "decision/report/text_format.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

struct StatusTextOptions {
  size_t columns = columns_unlimited;  // no line is wider
  bool ranks = false;                  // the ranks of each communicator, where the document has them
  bool incidents = true;               // the open incidents
};

// Of /v1/status: jobs, the troubled first, then communicators likewise.
std::string status_text(const Json& status, const StatusTextOptions&);
// Of /v1/jobs/<job>.
std::string job_text(const Json& job, const StatusTextOptions&);

// Where the list goes on: "and more: --after CURSOR"; empty at the end of the list.
std::string next_page_text(const Json& document, size_t columns);

}  // namespace ccld::decision::report
