// The probe's settings: environment variables, read once per process (NCCL puts its configuration files into the
// environment before).
//
// Contract
//   One typed table holds name, kind, default, range and help of every setting; parsing, the warnings and the README's
//   table come from it. A wrong value never stops anything: one line names the variable, the value and what is
//   accepted, and the default is used.
//
// Threads: settings() may be called by any thread; it reads the environment at its first call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ccld::probe {

struct Settings {
  bool enable = true;
  std::string endpoint;  // or several (schemas/endpoints)
  // Used as they are: a wrong one must end in no telemetry, never in telemetry without keys (transport/curve_keys.h).
  std::string server_key;
  std::string key_file;
  std::string job;
  std::string frames_dir;
  bool frames_shared = false;
  int64_t sample_us = 0;
  int64_t budget_ppm = 0;
  int64_t idle_ms = 0;
  int64_t rest_ms = 0;
  int64_t flush_ms = 0;
  int64_t heartbeat_ms = 0;
  int64_t late_ms = 0;
  int64_t late_report_ms = 0;
  int64_t poll_fresh_ms = 0;
  int64_t queue_max = 0;
  int64_t linger_ms = 0;
  int64_t siblings_ms = 0;
  int64_t stale_keep_s = 0;
  int64_t health_ms = 0;
  bool stream_writes = false;
  bool validate = false;
};

// Value of an environment variable, nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Never fails; every wrong value adds one line to `warnings`.
Settings parse_settings(const Environment&, std::vector<std::string>* warnings);

// Those of this process. Wrong values are logged as warnings at the first call.
const Settings& settings();

// The table as Markdown: one row per setting.
std::string settings_markdown();

}  // namespace ccld::probe
