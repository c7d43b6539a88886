// The watcher, watched: what the diagnostic thread counts about itself. Sent with every heartbeat (AgentHealth of the
// wire).
//
// Threads: written by the diagnostic thread (or by comm_end, under the agent's lock).
#pragma once

#include <cstdint>

namespace ccld::probe {

struct Health {
  uint64_t samples = 0;          // passes over all communicators
  uint64_t late_samples = 0;     // passes that began more than one period after they were due
  uint64_t lapped_rounds = 0;    // rounds whose record or device times were overwritten before they were read
  uint64_t dropped_batches = 0;  // the queue to the service was full
  uint64_t dropped_rounds = 0;   // finished rounds in excess of what one flush carries
  uint64_t send_errors = 0;      // the transport refused a batch for another reason than a full queue
  uint64_t sent_batches = 0;
  uint64_t sent_bytes = 0;
  uint64_t cpu_ns = 0;  // of the diagnostic thread
};

}  // namespace ccld::probe
