// One attempt to connect to a telemetry endpoint as a probe does, up to the end of the handshake.
// Errors: zmq::error_t where libzmq does not take the endpoint or the keys. Threads: any.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace ccld::decision {

// As NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE give them to a probe.
struct ProbeKeys {
  std::string server;        // public, of the service
  std::string open, secret;  // of the probe
};

// Nothing: both settings are empty. Errors: one line that names the setting.
absl::StatusOr<std::optional<ProbeKeys>> read_probe_keys(const std::string& server_key, const std::string& key_file);

enum class Handshake {
  done,
  rejected,    // our key is not accepted
  one_sided,   // one side demands keys, the other uses none
  broken_off,  // again and again: with keys the other end has another one or none, without it is no ZeroMQ
  silent,      // it accepts connections, and says nothing
  unreachable,
};

Handshake try_handshake(const std::string& endpoint, const std::optional<ProbeKeys>&,
                        std::chrono::milliseconds timeout);

}  // namespace ccld::decision
