// The newest message of every process, and the newest that described its communicators: what remains of a process that
// fell silent longer ago than the tail of the history reaches.
// Contract: bounded by bytes; messages for which there is no room are counted and left out. Processes that have been silent
// for long are forgotten when asked. Errors: none. Threads: one at a time; what collect() returns is never changed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/types/span.h"
#include "decision/model/events.h"
#include "decision/recording/incident_history.h"

namespace ccld::decision::recording {

class LastWordsBook {
 public:
  explicit LastWordsBook(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void heard(const Batch&, absl::Span<const uint8_t> message, Nanoseconds now_ns, int64_t realtime_ns);
  void forget(Nanoseconds silent_since_ns);
  LastWords collect() const;
  uint64_t bytes() const { return bytes_; }
  uint64_t left_out() const { return left_out_; }  // messages

 private:
  // A process announces its communicators one by one, each again and again.
  static constexpr size_t topology_kept_max = 8;
  struct Words {
    std::deque<std::shared_ptr<const KeptMessage>> topology;  // oldest first
    std::shared_ptr<const KeptMessage> newest;
  };
  void drop(const std::shared_ptr<const KeptMessage>& message);

  uint64_t bytes_max_;
  std::map<ProcessId, Words> processes_;
  uint64_t bytes_ = 0, left_out_ = 0;
};

}  // namespace ccld::decision::recording
