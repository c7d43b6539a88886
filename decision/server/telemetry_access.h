// The keys of the telemetry socket, out of the flags of `ccld serve` and `ccld record`.
// Errors: one line that names the flag; InvalidArgument: a flag that cannot be right. Threads: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/admission/book.h"
#include "decision/admission/reloader.h"
#include "decision/ingest/door.h"

namespace ccld::decision::server {

struct TelemetryAccessOptions {
  std::string listen;
  std::string secret_file;  // --telemetry-secret-file: our secret key
  std::string allow_file;   // --telemetry-allow-file: the public keys of probes
  bool insecure = false;
};

struct TelemetryAccess {
  std::optional<ingest::DoorOptions> door;     // nothing: whoever reaches the endpoint may send
  std::vector<admission::WatchedFiles> files;  // to be read again when they change
};

absl::StatusOr<TelemetryAccess> open_telemetry_access(const TelemetryAccessOptions&);

}  // namespace ccld::decision::server
