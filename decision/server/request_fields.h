// Fields of the JSON bodies of requests. Errors: InvalidArgument, one line that names the field. Pure. Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "decision/report/bounded_json.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::server {

// An object.
inline absl::StatusOr<report::Json> parse_request(const std::string& body) {
  auto json = report::parse_bounded(body);
  if (!json.ok()) return absl::InvalidArgumentError(absl::StrCat("the request: ", json.status().message()));
  if (!json->is_object()) return absl::InvalidArgumentError("the request is not a JSON object");
  return json;
}

// A text of at most so many bytes; blanks around it are taken off.
inline absl::Status take_text(const std::string& field, const report::Json& value, size_t bytes_max, std::string& out) {
  if (!value.is_string()) return absl::InvalidArgumentError(absl::StrCat(field, " is not a text"));
  out = std::string(absl::StripAsciiWhitespace(value.get<std::string>()));
  if (out.size() > bytes_max) return absl::InvalidArgumentError(absl::StrCat(field, " is longer than ", bytes_max, " bytes"));
  return absl::OkStatus();
}

}  // namespace ccld::decision::server
