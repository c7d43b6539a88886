// Counts what did not arrive: every process numbers its batches from 1 without gaps.
// The first number seen of a process starts the count, so a service that starts late has lost nothing by that.
// After a reconnect ZeroMQ may deliver the rest of the old connection between messages of the new one: such batches are
// late, not lost and not repeated.
// Bounded: when too many processes are known, the one that was silent longest is forgotten. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "decision/model/events.h"

namespace ccld::decision::ingest {

class SequenceTracker {
 public:
  explicit SequenceTracker(size_t processes_max);

  enum class Arrival { in_order, after_gap, late, repeated };
  struct Result {
    Arrival arrival = Arrival::in_order;
    uint64_t lost = 0;  // batches missing just before this one
  };
  Result record(const ProcessId&, uint64_t batch_seq);

  size_t processes() const { return entries_.size(); }

 private:
  struct Hash {
    size_t operator()(const ProcessId&) const;
  };
  struct Entry {
    uint64_t last_seq;
    uint64_t missing;                    // bit i: last_seq - i has not arrived
    std::list<ProcessId>::iterator age;  // position in by_age_, newest first
  };
  size_t processes_max_;
  std::unordered_map<ProcessId, Entry, Hash> entries_;
  std::list<ProcessId> by_age_;
};

}  // namespace ccld::decision::ingest
