// The query API: GET /healthz, /v1/status[?ranks=1], /v1/incidents, /v1/incidents/<id>, /v1/tune/<sequence>, /metrics;
// POST /v1/tune.
// It answers from the newest snapshot in threads of its own; no request ever touches the analysis thread.
// Contract: no authentication, so it listens on loopback unless told otherwise, and what changes anything (POST) is
// accepted from this host only, unless told otherwise, and only as application/json, which a foreign web page cannot send.
// Errors: open() names the address. Threads: open, start and stop from one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "decision/server/host_port.h"
#include "decision/server/snapshot_store.h"
#include "decision/server/tune.h"

namespace ccld::decision::server {

class HttpApi {
 public:
  static absl::StatusOr<std::unique_ptr<HttpApi>> open(const HostPort&, std::shared_ptr<const SnapshotStore>,
                                                       std::shared_ptr<TuneQueue>, bool allow_remote_tune);
  ~HttpApi();

  const HostPort& address() const;  // with the port that was picked
  void start();
  // False if a client still held a thread at the deadline: then the threads are left to end with the process.
  bool stop(absl::Duration patience);

 private:
  struct Impl;
  explicit HttpApi(std::shared_ptr<Impl>);
  std::shared_ptr<Impl> impl_;  // shared with the listening thread
};

}  // namespace ccld::decision::server
