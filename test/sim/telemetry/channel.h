// Between agents and service: batches are lost, late, repeated, overtaken; the service may start late, or end and start
// again. What arrives goes through the same bookkeeping of sequence numbers as in Ingest.
#pragma once

#include <functional>
#include <map>

#include "decision/ingest/sequence_tracker.h"
#include "decision/model/events.h"
#include "test/sim/instant.h"
#include "test/sim/random.h"

namespace ccld::sim {

struct Disturbance {
  double loss = 0, duplicates = 0, spikes = 0;  // probability for each batch
  Nanoseconds delay_ns = ns_per_ms;             // usual, at most
  Nanoseconds spike_ns = 0;                     // at most
  Instant service_starts = 0;                   // until then each process keeps its first batches, further ones are lost
  Instant restart_from = never, restart_to = never;  // in between, too; what was on its way is lost
};

class Channel {
 public:
  Channel(const Disturbance&, uint64_t seed);
  void send(decision::Batch, Instant now);
  // The service has ended: what is on its way to it is lost, and the next one has heard nothing.
  void cut();
  // Hands over what has arrived by `now`, in the order of arrival.
  void deliver(Instant now, const std::function<void(const decision::Batch&, Instant)>&);

 private:
  Instant back_at(Instant now) const;  // when the service is there; `now`: it is

  const Disturbance disturbance_;
  Stream random_;
  decision::ingest::SequenceTracker sequences_;
  std::multimap<Instant, decision::Batch> pending_;
  struct Kept {
    Instant until = 0;  // the service is there
    int batches = 0;
  };
  std::map<decision::ProcessId, Kept> kept_;  // of those sent while the service was not there
};

}  // namespace ccld::sim
