#include "decision/ingest/sequence_tracker.h"

#include <catch2/catch.hpp>

using namespace ccld::decision;
using namespace ccld::decision::ingest;
using Arrival = SequenceTracker::Arrival;

namespace {

ProcessId process(uint32_t pid) { return {"host", "boot", pid, 1}; }

}  // namespace

TEST_CASE("The first number of a process loses nothing") {
  SequenceTracker tracker(10);
  CHECK(tracker.record(process(1), 500).lost == 0);
  CHECK(tracker.record(process(1), 501).arrival == Arrival::in_order);
}

TEST_CASE("Missing numbers are lost, late ones are late once, then repeated") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 1);
  const auto gap = tracker.record(process(1), 5);
  CHECK(gap.arrival == Arrival::after_gap);
  CHECK(gap.lost == 3);
  for (const uint64_t seq : {3, 2, 4}) CHECK(tracker.record(process(1), seq).arrival == Arrival::late);
  for (const uint64_t seq : {1, 2, 3, 4, 5}) CHECK(tracker.record(process(1), seq).arrival == Arrival::repeated);
}

TEST_CASE("Gaps wider than the memory are counted in full") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 1);
  CHECK(tracker.record(process(1), 1'000'001).lost == 999'999);
  CHECK(tracker.record(process(1), 1'000'001).arrival == Arrival::repeated);
  CHECK(tracker.record(process(1), 1'000'001 - 63).arrival == Arrival::late);
  CHECK(tracker.record(process(1), 1'000'001 - 63).arrival == Arrival::repeated);
  CHECK(tracker.record(process(1), 2).arrival == Arrival::late);
}

TEST_CASE("A number is remembered while others arrive") {
  for (uint64_t shift = 1; shift < 64; ++shift) {
    SequenceTracker tracker(10);
    tracker.record(process(1), 1);
    tracker.record(process(1), 3);  // 2 is missing
    tracker.record(process(1), 3 + shift);
    CHECK(tracker.record(process(1), 3).arrival == Arrival::repeated);
    CHECK(tracker.record(process(1), 2).arrival == Arrival::late);
  }
}

TEST_CASE("The process that was silent longest is forgotten first") {
  SequenceTracker tracker(2);
  tracker.record(process(1), 1);
  tracker.record(process(2), 1);
  tracker.record(process(1), 2);
  tracker.record(process(3), 1);
  CHECK(tracker.processes() == 2);
  CHECK(tracker.record(process(1), 5).lost == 2);   // still known
  CHECK(tracker.record(process(2), 50).lost == 0);  // was forgotten
}
