// Where deliveries go: the parts of a URL that an HTTP client wants. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ccld::decision::webhook {

struct Url {
  std::string origin;  // "https://hooks.example.org:443"
  std::string target;  // "/T000/secret?x=1"
};

// Errors: InvalidArgument: not a URL with http or https, or one with a password, which everybody can read in the list of
// processes.
absl::StatusOr<Url> parse_url(const std::string&);

}  // namespace ccld::decision::webhook
