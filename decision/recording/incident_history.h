// What a recording of an incident is made from: the beginning of the telemetry, the newest telemetry, and of processes
// that fell silent before that, their newest words.
//
//   head (communicators, warm-up, baselines)   ...forgotten...   last words, tail (up to the incident)
//
// Contract
//   Blocks come in packed, in order. Head and tail are bounded by bytes as packed, and blocks that left the head stay in
//   the tail while there is room, so a job that fits is kept whole. When something was forgotten in between, write()
//   moves the head's instants up to the beginning of the tail: a pause of hours would be a silence that never was.
// Errors: those of the file. Threads: one at a time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "decision/recording/recording_file.h"

namespace ccld::decision::recording {

// A message as it was received.
struct KeptMessage {
  Nanoseconds clock_ns = 0;
  int64_t realtime_ns = 0;
  std::string bytes;
};
using LastWords = std::vector<std::shared_ptr<const KeptMessage>>;

class IncidentHistory {
 public:
  IncidentHistory(uint64_t head_bytes_max, uint64_t tail_bytes_max) : head_bytes_max_(head_bytes_max), tail_bytes_max_(tail_bytes_max) {}

  // `first_ns`, `last_ns`: of the block's entries.
  void add(std::string block, Nanoseconds first_ns, Nanoseconds last_ns);
  uint64_t bytes() const { return head_bytes_ + tail_bytes_; }
  bool whole() const { return !forgot_; }

  absl::Status write(RecordingFile&, LastWords, Packer&) const;

 private:
  struct Block {
    std::string bytes;
    Nanoseconds first_ns, last_ns;
  };
  uint64_t head_bytes_max_, tail_bytes_max_;
  std::vector<Block> head_;
  std::deque<Block> tail_;
  uint64_t head_bytes_ = 0, tail_bytes_ = 0;
  bool head_full_ = false, forgot_ = false;
};

}  // namespace ccld::decision::recording
