// What the nodes of a cluster share, as the cluster needs it: messages to all who listen now, one lease, and a log.
// NATS gives it (nats_bus.h); tests put their own behind it.
//
// Errors: Unavailable: no connection, or no answer in time: whether it was done is not known; Aborted: somebody else
// was first; FailedPrecondition: the servers answer that they cannot do it. Threads: any. Handlers are called from
// threads of the bus, one after the other for each subscription.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/model/types.h"

namespace ccld::decision::cluster {

class Bus {
 public:
  virtual ~Bus() = default;
  virtual bool connected() const = 0;
  // Now and then, from one thread, after all listen() and before close(): a connection that has ended for good, or that
  // servers refuse, is made anew.
  virtual void mend() = 0;

  // To all nodes that listen, this one not. What is sent without a connection is lost. Waits while the server takes
  // nothing, a second at most.
  virtual absl::Status send(const std::string& subject, absl::Span<const uint8_t>) = 0;
  using Handler = std::function<void(const std::string& subject, absl::Span<const uint8_t>)>;
  // `subject` may end with ".*". Until close().
  virtual absl::Status listen(const std::string& subject, Handler) = 0;
  // The end: no handler runs any more once it has returned.
  virtual void close() = 0;

  // The lease: a text that goes when it has not been renewed for a while, which was fixed when the bus was opened. Each
  // change makes it another revision.
  struct Lease {
    std::string holder;
    uint64_t revision = 0;
  };
  virtual absl::StatusOr<std::optional<Lease>> lease() = 0;                    // nothing: nobody has it
  virtual absl::StatusOr<uint64_t> take_lease(const std::string& holder) = 0;  // Aborted: somebody has it
  virtual absl::StatusOr<uint64_t> renew_lease(const std::string& holder,
                                               uint64_t of) = 0;  // Aborted: it is another one by now
  virtual absl::Status give_lease_back(uint64_t of) = 0;

  // The log. Entries have numbers from 1; old ones go. One that was lost begins anew, and was made at another time.
  struct Range {
    uint64_t first = 1, last = 0;
    int64_t made_ns = 0;
  };
  virtual absl::StatusOr<Range> log() = 0;
  virtual absl::StatusOr<std::string> read(uint64_t number) = 0;  // NotFound: it is gone
  // Kept by as many servers as there are to be. Aborted: the newest one is not `after` (any more). OutOfRange: it is
  // longer than what the servers take.
  virtual absl::StatusOr<uint64_t> append(const std::string& entry, uint64_t after) = 0;
};

}  // namespace ccld::decision::cluster
