// What a node knows of its cluster, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccld::decision::report {

struct ClusterStatus {
  struct Node {
    std::string name, http, telemetry, version;
    bool leads = false;
    int64_t heard_ms = 0;  // ago
  };
  std::string name, node;  // of the cluster, of this node
  std::string leader;      // empty: not known
  bool connected = false, leads = false;
  std::vector<Node> nodes;                      // heard of lately, this one too, by name
  uint64_t log_applied = 0, log_last = 0;       // entries of the log
  std::string log_error;                        // why the servers take no entry; empty: they do
  uint64_t sent = 0, not_sent = 0;              // telemetry of this node's probes, for the others
  uint64_t received = 0, received_dropped = 0;  // telemetry of the others' probes
};

}  // namespace ccld::decision::report
