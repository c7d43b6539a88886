// NATS with JetStream as the bus of a cluster. Messages go over subjects "ccld.<cluster>.<subject>" and are not kept.
// The lease is the stream "ccld-<cluster>-lease" (in memory, its one message goes after `lease_lasts_ns`), the log is
// "ccld-<cluster>-log" (on disk). Both are made if they are missing, on `replicas` of the servers.
//
// Contract: open() succeeds also while no server is there, or none lets this node in: it is tried until one does.
// Messages longer than the servers take (1 MB unless they are told otherwise) are refused by send(). Errors: open():
// InvalidArgument names the option, Unavailable: the client library is missing. Else as bus.h. Threads: as bus.h; the
// client has threads of its own.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "decision/cluster/bus.h"
#include "decision/cluster/nats_options.h"

namespace ccld::decision::cluster {

absl::StatusOr<std::unique_ptr<Bus>> open_nats(const NatsOptions&);

}  // namespace ccld::decision::cluster
