// What every answer of the query API is: one line of JSON; of a refusal, {"error"}. Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "decision/report/verdict_json.h"
#include "httplib.h"

namespace ccld::decision::server {

constexpr char json_type[] = "application/json";

inline void answer(httplib::Response& response, const report::Json& json) {
  response.set_content(report::to_line(json) + "\n", json_type);
}

inline void refuse(httplib::Response& response, int status, const std::string& error) {
  response.status = status;
  answer(response, {{"error", error}});
}

inline std::string not_our_name(const std::string& host) {
  return "Host '" + host + "' is not a name of this service: `ccld serve --http-name` adds one";
}

inline int http_status(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kFailedPrecondition: return 409;
    case absl::StatusCode::kUnavailable: return 503;
    default: return 500;
  }
}

}  // namespace ccld::decision::server
