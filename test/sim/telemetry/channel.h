// Between agents and service: batches are lost, late, repeated, overtaken; the service may start late. What arrives goes
// through the same bookkeeping of sequence numbers as in Ingest.
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
};

class Channel {
 public:
  Channel(const Disturbance&, uint64_t seed);
  void send(decision::Batch, Instant now);
  // Hands over what has arrived by `now`, in the order of arrival.
  void deliver(Instant now, const std::function<void(const decision::Batch&, Instant)>&);

 private:
  const Disturbance disturbance_;
  Stream random_;
  decision::ingest::SequenceTracker sequences_;
  std::multimap<Instant, decision::Batch> pending_;
  std::map<decision::ProcessId, int> kept_;  // of those sent before the service started
};

}  // namespace ccld::sim
