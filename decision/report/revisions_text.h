// How an incident developed: a row for each of its revisions. Made from the JSON documents.
// Errors: nlohmann::json::exception where one is not a verdict. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

std::string revisions_text(const std::vector<Json>& revisions, size_t columns);

}  // namespace ccld::decision::report
