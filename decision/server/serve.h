// `ccld serve`: opens everything, says where it listens, analyses until SIGINT or SIGTERM.
//
// Contract
//   Nothing is announced before everything is open. Standard error gets "ccld: listening on <telemetry> and <query API>";
//   with ready_file the same as JSON, written whole and removed at the end.
//   A signal ends the service within a second, exit 0.
// Errors
//   InvalidArgument: an option that cannot be right (exit 2); anything else: the surroundings (exit 1). One line, which
//   names the option.
// Threads: the calling thread analyses; the query API has its own. Call before any other thread exists: signals are blocked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ccld::decision::server {

struct ServeOptions {
  std::string listen = "tcp://127.0.0.1:5566";
  std::string http = "127.0.0.1:5580";
  std::string verdicts = "-";
  std::string rules = "default";
  std::string log_level = "info";
  std::string ready_file;
  std::string layout;  // of the job, a JSON file; empty: guessed
  std::string record;                 // a file for everything that arrives; empty: none
  std::string record_max_bytes = "4G";
  std::string record_incidents;       // a folder for recordings of incidents; empty: none
  std::string record_incidents_max = "20";
  std::string record_history_bytes = "64M";
  bool record_overwrite = false;
  bool allow_remote_tune = false;     // POST /v1/tune from other hosts too
  std::vector<std::string> settings;  // "name=value", later ones win
};

absl::Status serve(const ServeOptions&);

}  // namespace ccld::decision::server
