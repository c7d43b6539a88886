// The query API: GET /healthz, /v1/status[?ranks=1], /v1/incidents, /v1/incidents/<id>, /metrics.
// It answers from the newest snapshot in threads of its own; no request ever touches the analysis thread.
// Contract: read-only, no authentication, so it listens on loopback unless told otherwise.
// Errors: open() names the address. Threads: open, start and stop from one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "decision/server/host_port.h"
#include "decision/server/snapshot_store.h"

namespace ccld::decision::server {

class HttpApi {
 public:
  static absl::StatusOr<std::unique_ptr<HttpApi>> open(const HostPort&, std::shared_ptr<const SnapshotStore>);
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
