// The door for telemetry: bytes in, batches out, everything refused or missing counted. No I/O besides the log.
//
// Contract
//   accept() never throws and never stops working because of what it was given. A message that is refused is counted by
//   reason and logged once per distinct cause; a gap in a process's batch numbers is counted as lost (a refused batch
//   therefore counts as refused and, once the next one arrives, as lost); a batch that was there already is
//   counted and dropped, so that no round is analysed twice.
// Threads
//   One caller at a time.
#pragma once

#include <array>
#include <optional>

#include "absl/types/span.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/ingest/distinct_errors.h"
#include "decision/ingest/sequence_tracker.h"
#include "decision/ingest/speaker.h"

namespace ccld::decision::ingest {

struct IngestCounters {
  uint64_t batches = 0;           // accepted
  uint64_t bytes = 0;             // of accepted batches
  uint64_t payloads = 0;          // of accepted batches
  uint64_t lost_batches = 0;      // gaps in the numbers; some may still come
  uint64_t late_batches = 0;      // came after a later one
  uint64_t repeated_batches = 0;
  uint64_t unknown_payloads = 0;  // of newer senders
  std::array<uint64_t, reject_reason_count> rejected{};
  Nanoseconds lag_ns = 0;         // of the newest batch: our clock minus the sender's when it sent; includes clock difference
  uint64_t rejected_total() const;
};

class Ingest {
 public:
  Ingest();

  // `speaker`: whose key the message came under; nullptr: keys are not used. `owners`: nullptr: nothing is known.
  std::optional<Batch> accept(absl::Span<const uint8_t> message, Nanoseconds now_ns, Nanoseconds realtime_ns,
                              const Speaker* speaker = nullptr, Owners* owners = nullptr);
  // Of one that was decoded already: that needs nothing of this.
  std::optional<Batch> accept(Decoded, size_t message_bytes, Nanoseconds now_ns, Nanoseconds realtime_ns,
                              const Speaker* speaker = nullptr, Owners* owners = nullptr);
  // The newest message was refused for who sent it: nothing of it may be kept.
  bool newest_is_foreign() const { return newest_is_foreign_; }
  // For what the socket already knows to be bad.
  void reject(const absl::Status& rejection, Nanoseconds now_ns);

  const IngestCounters& counters() const { return counters_; }
  const DistinctErrors& errors() const { return errors_; }

 private:
  IngestCounters counters_;
  DistinctErrors errors_;
  SequenceTracker sequences_;
  bool newest_is_foreign_ = false;
};

}  // namespace ccld::decision::ingest
