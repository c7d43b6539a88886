// Counts what did not arrive: every process numbers its batches from 1 without gaps.
// The first number seen of a process starts the count, so a service that starts late has lost nothing by that.
// After a reconnect ZeroMQ may deliver the rest of the old connection between messages of the new one: such batches are
// late, not lost and not repeated. Another image of the process (model/newest_batch.h) starts the count once more; what the
// image before it had sent is late, too.
// Bounded: when too many processes are known, the one that was silent longest is forgotten. A process is known by a
// 64-bit hash of its identity, in some 60 bytes: at the bound of 262,144 processes two of them are taken for one with a
// probability of 2e-9. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/events.h"
#include "decision/model/newest_batch.h"

namespace ccld::decision::ingest {

class SequenceTracker {
 public:
  explicit SequenceTracker(size_t processes_max);

  enum class Arrival { in_order, after_gap, late, repeated };
  struct Result {
    Arrival arrival = Arrival::in_order;
    uint64_t lost = 0;  // batches missing just before this one
  };
  // `sent_ns`: by the sender's monotonic clock.
  Result record(const ProcessId&, uint64_t batch_seq, uint64_t sent_ns);

  size_t processes() const { return entries_.size(); }

 private:
  static constexpr uint32_t nobody = UINT32_MAX;
  struct Entry {
    uint64_t identity;
    NewestBatch newest;
    uint64_t missing;       // bit i: newest.seq - i has not arrived
    uint32_t newer, older;  // in the order in which they last spoke
  };
  void unlink(uint32_t);
  void link_as_newest(uint32_t);

  size_t processes_max_;
  std::vector<Entry> entries_;
  absl::flat_hash_map<uint64_t, uint32_t> places_;  // by identity
  uint32_t newest_ = nobody, oldest_ = nobody;
};

}  // namespace ccld::decision::ingest
