// Asks a running service. Errors: one line with the URL; NotFound with the service's own words for what it does not
// know. An answer that is long, or nested deep, beyond what a service says is an error: whoever listens there may be
// another. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision {

constexpr char default_service_url[] = "http://127.0.0.1:5580";
constexpr char service_url_variable[] = "CCLD_HTTP";
constexpr char token_variable[] = "CCLD_TOKEN";

// Where the service is, how it is known to be ours, and how it knows us.
struct ServiceAddress {
  ServiceAddress() = default;
  ServiceAddress(std::string where) : url(std::move(where)) {}  // NOLINT: an address without secrets is its URL
  std::string url = default_service_url;  // with https:// it must prove its certificate
  std::string token_file;                 // empty: CCLD_TOKEN of the environment, if that is set
  std::string ca_file;                    // certificates that are trusted; empty: the system's
};

absl::StatusOr<report::Json> ask_service(const ServiceAddress&, const std::string& path);
// Errors: InvalidArgument with the service's own words for a request it refuses, Unauthenticated, PermissionDenied,
// NotFound and FailedPrecondition likewise.
absl::StatusOr<report::Json> tell_service(const ServiceAddress&, const std::string& path, const report::Json& request);

// A value within a path or a parameter.
std::string percent_encoded(const std::string&);

}  // namespace ccld::decision
