// Whether the service may listen where it is told to: beyond this host only if it knows who comes in, or if its
// operator says in so many words that anybody may (--insecure). Pure. Errors: InvalidArgument, one line that names the
// flags. Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/server/host_port.h"

namespace ccld::decision::server {

// "tcp://127.0.0.1:5566", "tcp://lo:5566", "ipc://...": nobody on another host reaches it.
bool is_local_endpoint(absl::string_view endpoint);

absl::Status check_telemetry_exposure(const std::string& endpoint, bool keys, bool insecure);
absl::Status check_http_exposure(const HostPort&, bool tokens, bool insecure);

}  // namespace ccld::decision::server
