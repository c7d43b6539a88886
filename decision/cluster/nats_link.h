// A connection to NATS servers, and what is made with it: subscriptions and the context of JetStream. The client
// connects again by itself, with the certificates that it read first, but closes a connection for good when servers
// refuse it twice for the same reason; then who has it makes another one.
//
// Errors: connect(), connect_now(): InvalidArgument names the option; connect_now(): PermissionDenied: a server refuses
// this node, and why; else Unavailable. Threads: any; close() one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/cluster/bus.h"
#include "decision/cluster/nats_library.h"
#include "decision/cluster/nats_options.h"

namespace ccld::decision::cluster {

class NatsLink {
 public:
  // Also while no server is there.
  static absl::StatusOr<std::shared_ptr<NatsLink>> connect(const NatsLibrary&, const NatsOptions&);
  // Once, at all servers. Waits a second at most for each that does not answer.
  static absl::StatusOr<std::shared_ptr<NatsLink>> connect_now(const NatsLibrary&, const NatsOptions&);
  ~NatsLink();
  NatsLink(const NatsLink&) = delete;

  // Not asked of the client: that locks itself for a second at a time while it tries to connect to who does not answer,
  // and the analysis must not wait.
  bool connected() const;
  bool closed_for_good() const;
  // A server that was reached lately did not let this node in. Not always known where other servers are not reached.
  bool refused() const;

  // What servers denied this node's user since the last call, as they say it; a few of them.
  std::vector<std::string> take_denied();

  // `handler` is told the subject without its first `prefix_chars`. FailedPrecondition: it is closed for good.
  absl::Status listen(const std::string& subject, size_t prefix_chars, Bus::Handler handler);
  // No handler runs any more once it has returned.
  void close();

  natsConnection* connection() const { return connection_; }
  jsCtx* js() const { return js_; }
  // That `what` has failed, and why.
  absl::Status error(const std::string& what, natsStatus) const;

 private:
  struct Told;
  struct Listener;
  explicit NatsLink(const NatsLibrary&);
  static absl::StatusOr<std::shared_ptr<NatsLink>> made(const NatsLibrary&, const NatsOptions&, bool wait_for_server);
  absl::Status open(const NatsOptions&, bool wait_for_server);

  const NatsLibrary& nats_;
  const std::shared_ptr<Told> told_;
  natsConnection* connection_ = nullptr;
  jsCtx* js_ = nullptr;
  std::vector<std::shared_ptr<Listener>> listeners_;
};

}  // namespace ccld::decision::cluster
