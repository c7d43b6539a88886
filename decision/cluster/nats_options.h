// How a node reaches NATS, and what it keeps there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decision/model/types.h"

namespace ccld::decision::cluster {

struct NatsOptions {
  std::vector<std::string> servers;  // nats://host:port, or tls://
  std::string cluster = "ccld";      // letters, digits, '-' and '_'
  std::string node;
  std::string credentials_file;            // of NATS: JWT and seed; empty: none
  std::string ca_file;                     // empty: the system's, if a server speaks TLS
  std::string certificate_file, key_file;  // of this node; both or none
  Nanoseconds lease_lasts_ns = 3 * ns_per_s;
  int64_t log_bytes_max = int64_t{256} << 20, log_age_max_ns = 0;  // as the history's
  int replicas = 1;
};

}  // namespace ccld::decision::cluster
