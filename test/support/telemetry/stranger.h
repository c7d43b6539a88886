// Telemetry that nobody honest sends, well formed for a decoder that knows no other message: contradictions, numbers of
// other communicators, sizes that nobody has. The numbers are small, so that they meet.
//
//   SeededNumbers numbers(seed);          // or the bytes of a fuzzer
//   Stranger stranger(numbers);
//   analyzer.apply(stranger.batch(now_ns), now_ns);
//
// Contract: no field lies outside what decision/ingest lets in. Equal numbers give equal telemetry.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "decision/model/events.h"

namespace ccld::fake {

class Numbers {
 public:
  virtual ~Numbers() = default;
  virtual uint32_t bits() = 0;
  int below(int n) { return static_cast<int>(bits() % static_cast<uint32_t>(n)); }
};

class SeededNumbers : public Numbers {
 public:
  explicit SeededNumbers(uint32_t seed) : random_(seed) {}
  uint32_t bits() override { return static_cast<uint32_t>(random_()); }

 private:
  std::mt19937 random_;
};

class Stranger {
 public:
  explicit Stranger(Numbers& numbers) : numbers_(numbers) {}

  decision::Batch batch(decision::Nanoseconds now_ns);

 private:
  uint32_t random() { return numbers_.bits(); }
  int below(int n) { return numbers_.below(n); }
  bool chance(int one_in) { return below(one_in) == 0; }

  decision::CommUid comm() { return decision::CommUid{1 + static_cast<uint64_t>(below(3))}; }
  int rank() { return chance(8) ? below(300) : below(6); }
  int rank_or_none() { return rank() - 1; }
  decision::OpSeq op() { return decision::OpSeq{1 + static_cast<uint64_t>(below(12))}; }
  abi::Direction direction() { return chance(2) ? abi::Direction::send : abi::Direction::recv; }
  uint32_t replay() { return static_cast<uint32_t>(chance(4) ? below(3) : 0); }
  uint32_t age_ms() { return static_cast<uint32_t>(below(30'000)); }
  uint64_t time_ns(decision::Nanoseconds now_ns);
  std::string name();

  decision::Signature signature();
  decision::LinkStages link(decision::OpSeq, decision::Nanoseconds now_ns);
  decision::Payload payload(decision::Nanoseconds now_ns);
  decision::CommUp comm_up();
  decision::CommDown comm_down();
  decision::CommInit initialization();
  decision::InFlight snapshot(decision::Nanoseconds now_ns);
  decision::InFlightOp operation_in_flight();
  decision::P2pCall call_in_flight();
  decision::Rounds finished(decision::Nanoseconds now_ns);
  decision::P2pRounds transfers(decision::Nanoseconds now_ns);
  decision::AgentHealth health();
  decision::Metrics metrics();
  decision::NetQueues queues();
  decision::ControlState control();

  Numbers& numbers_;
};

}  // namespace ccld::fake
