// `ccld record`: takes telemetry and writes it to a file, without analysing it; for `ccld replay` elsewhere.
// Contract: "ccld: recording <telemetry> into <file>" on standard error once everything is open; SIGINT, SIGTERM and a full
// file end it cleanly, with one line that says what was written.
// Errors: InvalidArgument: an option that cannot be right; anything else: the surroundings. One line that names the option.
// Threads: the calling one and the recorder's. Call before any other thread exists: signals are blocked.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace ccld::decision::server {

struct RecordOptions {
  std::string listen = "tcp://127.0.0.1:5566";
  std::string telemetry_secret_file, telemetry_allow_file;  // as of ServeOptions
  bool insecure = false;
  std::string path;
  std::string max_bytes = "4G";
  bool overwrite = false;
};

absl::Status record(const RecordOptions&);

}  // namespace ccld::decision::server
