// What every long-running command of `ccld` needs from the process it runs in: log, stop signals, addresses that are what
// they seem. Errors: one line each. Threads: call before any other thread exists.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::server {

absl::Status naming(const char* option, const absl::Status&);  // the option in front of the error

// To standard error; what is not printable in a line stands as '?'. `level`: trace, debug, info, warning, error,
// critical or off.
absl::Status start_log(const std::string& level);
// SIGINT and SIGTERM become readable; a reader of our output that went away must not end us.
absl::StatusOr<int> open_stop_signals();
// The signal's number, or 0 if there is none.
int read_stop_signal(int fd);

// ZeroMQ takes any number for a port and wraps it around.
absl::Status check_endpoint(absl::string_view endpoint);

}  // namespace ccld::decision::server
