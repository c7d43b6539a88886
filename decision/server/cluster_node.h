// `ccld serve --cluster`: this service as one node of several (decision/cluster).
//
//   auto node = ClusterNode::open(options);            // nullptr: no cluster is asked for
//   node->begin(reporter, about);                      // everything else is open
//   node->take_turn() at each tick; node->end() at the end
//
// Errors: as cluster/nats_bus.h. Threads: the analysis thread; status() and leader_url() any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decision/cluster/member.h"
#include "decision/cluster/relay.h"
#include "decision/report/cluster_status.h"
#include "decision/server/reporter.h"

namespace ccld::decision::server {

struct ClusterOptions {
  std::string servers;              // "nats://a:4222,nats://b:4222"; empty: no cluster
  std::string name = "ccld", node;  // node: empty: the host's name
  std::string http_url;             // under which others reach this node's query API; empty: where it listens
  std::string credentials_file, ca_file, certificate_file, key_file;
  std::string replicas = "auto";                  // servers that keep the log; auto: three, or one if fewer are named
  int64_t log_bytes_max = 0, log_age_max_ms = 0;  // as the history's
};

class ClusterNode {
 public:
  static absl::StatusOr<std::unique_ptr<ClusterNode>> open(const ClusterOptions&);
  ~ClusterNode();

  // Where this node is reached, and the run of this service.
  struct About {
    std::string http_url, telemetry, version, run;
  };
  absl::Status begin(const std::shared_ptr<Reporter>&, const About&);
  // The lease is given back, so another node leads at once, and the telemetry that waits is sent to it.
  void end();

  cluster::Relay& relay() { return relay_; }
  std::optional<cluster::Member::Turn> take_turn() { return member_->take_turn(); }
  report::ClusterStatus status() const;
  // Of another node, that leads; empty: this one does, or none is known.
  std::string leader_url() const;

 private:
  ClusterNode(ClusterOptions options, std::unique_ptr<cluster::Bus> bus)
      : options_(std::move(options)), bus_(std::move(bus)), relay_(*bus_, options_.node) {}

  const ClusterOptions options_;
  std::unique_ptr<cluster::Bus> bus_;
  cluster::Relay relay_;
  std::unique_ptr<cluster::Member> member_;
};

}  // namespace ccld::decision::server
