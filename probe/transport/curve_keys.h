// The keys by which this process and the service know each other (ZeroMQ's CURVE), out of the settings.
//
// Contract
//   Both settings or none. What cannot be used is one line that names the setting; the caller then sends nothing, for
//   telemetry without keys is what whoever set them does not want.
//
// Threads: any; files are read, so never the training path.
#pragma once

#include <optional>
#include <string>

namespace ccld::probe {

// As 40 characters of Z85. Both empty: no keys.
struct CurveKeys {
  std::string server;  // public, of the service
  std::string secret;  // of this process
  bool used() const { return !server.empty(); }
};

// `server_key`, `key_file`: values of NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE. Nothing: they cannot be used.
std::optional<CurveKeys> read_curve_keys(const std::string& server_key, const std::string& key_file,
                                         std::string* error);

}  // namespace ccld::probe
