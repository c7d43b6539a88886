// What the analysis thread does as a node of a cluster (cluster/README.md): it hands on what its own probes send, takes
// in what those of other nodes send, and leads or follows. Without a cluster all of it is nothing.
//
// Errors: none; what is lost is counted (cluster/relay.h). Threads: the analysis thread.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "decision/server/analysis_loop.h"
#include "decision/server/cluster_node.h"
#include "decision/server/webhook_turns.h"

namespace ccld::decision::server {

class ClusterSide {
 public:
  // `node`: nullptr: no cluster. `run`: of this service; `take_up_ns`: how long a new leader looks for what was open.
  ClusterSide(ClusterNode* node, WebhookTurns* webhook, std::string run, Nanoseconds take_up_ns)
      : node_(node), webhook_(webhook), run_(std::move(run)), take_up_ns_(take_up_ns) {}

  // Of a probe of this node, which may say that.
  void send_on(const std::string& connection, absl::Span<const uint8_t> message, const Batch&) const;
  // For a probe of another node. False: it cannot be sent.
  bool answer(const std::string& connection, absl::Span<const uint8_t> message) const;

  int descriptor() const;  // readable while something waits; -1: no cluster
  // Telemetry of other nodes' probes to the analysis, what those nodes say to probes of this one `to_own_probe`.
  using ToOwnProbe = absl::FunctionRef<void(const std::string& connection, absl::Span<const uint8_t> message)>;
  void drain(AnalysisLoop&, const ControlDesk::Send&, ToOwnProbe) const;

  // Whether this node leads may have changed.
  void take_turn(AnalysisLoop&, Nanoseconds now_ns) const;

 private:
  ClusterNode* const node_;
  WebhookTurns* const webhook_;
  const std::string run_;
  const Nanoseconds take_up_ns_;
};

}  // namespace ccld::decision::server
