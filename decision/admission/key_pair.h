// New keys of telemetry. Errors: Unavailable: this libzmq makes none. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ccld::decision::admission {

struct KeyPair {
  std::string open, secret;  // 40 characters of Z85
};

// A public key of letters, digits and what neither shells nor YAML nor configuration files take for something else: it
// needs no quotes, and begins with a letter or digit.
absl::StatusOr<KeyPair> make_key_pair();
// What the file of the secret key holds.
std::string secret_file_text(const KeyPair&);
// Errors: InvalidArgument.
absl::StatusOr<std::string> public_key_of(const std::string& secret);

}  // namespace ccld::decision::admission
