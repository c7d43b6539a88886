// Asks a running service. Errors: one line with the URL; NotFound with the service's own words for what it does not know.
// Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision {

constexpr char default_service_url[] = "http://127.0.0.1:5580";
constexpr char service_url_variable[] = "CCLD_HTTP";

absl::StatusOr<report::Json> ask_service(const std::string& url, const std::string& path);
// Errors: InvalidArgument with the service's own words for a request it refuses, PermissionDenied, NotFound and
// FailedPrecondition likewise.
absl::StatusOr<report::Json> tell_service(const std::string& url, const std::string& path, const report::Json& request);

// A value within a path or a parameter.
std::string percent_encoded(const std::string&);

}  // namespace ccld::decision
