// New keys of telemetry in the place of those in use.
//
// Contract
//   The new secret key is written beside the old one first (FILE.new), then whoever is to know its public key is told,
//   then it takes the place of the old one, whose rights stay: wherever this is cut off no secret key that somebody
//   believes in is lost. A FILE.new that is there already is an error that names it.
// Errors: InvalidArgument, NotFound, AlreadyExists or Unavailable, with the path. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ccld::decision::admission {

struct Rotated {
  std::string before, now;  // public keys
};

// A probe's: the new one gets into the list with what the old one is bound to; the old one stays in the list.
absl::StatusOr<Rotated> rotate_probe_key(const std::string& secret_file, const std::string& list);
// The service's: `public_file`, where probes read its public key, gets the new one.
absl::StatusOr<Rotated> rotate_service_key(const std::string& secret_file, const std::string& public_file);

}  // namespace ccld::decision::admission
