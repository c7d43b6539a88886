// A collective that all ranks have reported, kept for people: how late each rank came to it, in a byte. (Paper, section
// 4.2.2: the rank with the least duration came last.)
//
// A rank that came late waited for fewer others, so its own duration is the shorter: it was late by what the longest
// duration is more. That needs no comparison of clocks. A rank that is slow inside the operation makes all durations
// longer and nobody late.
//
// Contract: plain values, never changed once made, so that snapshots share them. Times are steps of SmallLog: lateness
// is told to within 6 %.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "decision/model/call_times.h"
#include "decision/model/small_log.h"

namespace ccld::decision {

struct RecordedCall {
  using Micros = SmallLog<3>;
  Nanoseconds heard_ns = 0;  // when all ranks had reported it, on the service's clock: some tenths of a second after its end
  OpSeq op;
  uint32_t replay = 0;
  Signature signature;
  CallTimes times;
  std::vector<uint8_t> late;  // by rank; Micros::none: not measured. May be shorter than the communicator
};

// nullptr: of such an operation durations do not tell who was late (not everybody waits for everybody), or fewer than
// two ranks measured it.
std::shared_ptr<const RecordedCall> recorded_call(const RoundEntry&, Nanoseconds now_ns);

// The newest calls of one communicator.
class CallRecord {
 public:
  static constexpr size_t calls_max = 100;

  // In the order of operations where reports of some ranks came late.
  void add(std::shared_ptr<const RecordedCall>);
  // The oldest first.
  std::vector<std::shared_ptr<const RecordedCall>> calls() const { return {calls_.begin(), calls_.end()}; }

 private:
  std::deque<std::shared_ptr<const RecordedCall>> calls_;
};

}  // namespace ccld::decision
