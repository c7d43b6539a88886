// NATS with JetStream as the bus of a cluster. Messages go over subjects "ccld.<cluster>.<subject>" and are not kept.
// The lease is the stream "ccld-<cluster>-lease" (in memory, its one message goes after `lease_lasts_ns`), the log is
// "ccld-<cluster>-log" (on disk). Both are made if they are missing, on `replicas` of the servers.
//
// Contract: open() succeeds also while no server is there: it is looked for until it is. Messages longer than the
// servers take (1 MB unless they are told otherwise) are refused by send(). Errors: open(): InvalidArgument names the
// option, Unavailable: the client library is missing. Else as bus.h. Threads: as bus.h; the client has threads of its
// own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "decision/cluster/bus.h"

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

absl::StatusOr<std::unique_ptr<Bus>> open_nats(const NatsOptions&);

}  // namespace ccld::decision::cluster
