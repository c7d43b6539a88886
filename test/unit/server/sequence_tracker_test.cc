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
  CHECK(tracker.record(process(1), 500, 0).lost == 0);
  CHECK(tracker.record(process(1), 501, 0).arrival == Arrival::in_order);
}

TEST_CASE("Missing numbers are lost, late ones are late once, then repeated") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 1, 0);
  const auto gap = tracker.record(process(1), 5, 0);
  CHECK(gap.arrival == Arrival::after_gap);
  CHECK(gap.lost == 3);
  for (const uint64_t seq : {3, 2, 4}) CHECK(tracker.record(process(1), seq, 0).arrival == Arrival::late);
  for (const uint64_t seq : {1, 2, 3, 4, 5}) CHECK(tracker.record(process(1), seq, 0).arrival == Arrival::repeated);
}

TEST_CASE("Gaps wider than the memory are counted in full") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 1, 0);
  CHECK(tracker.record(process(1), 1'000'001, 0).lost == 999'999);
  CHECK(tracker.record(process(1), 1'000'001, 0).arrival == Arrival::repeated);
  CHECK(tracker.record(process(1), 1'000'001 - 63, 0).arrival == Arrival::late);
  CHECK(tracker.record(process(1), 1'000'001 - 63, 0).arrival == Arrival::repeated);
  CHECK(tracker.record(process(1), 2, 0).arrival == Arrival::late);
}

TEST_CASE("A number is remembered while others arrive") {
  for (uint64_t shift = 1; shift < 64; ++shift) {
    SequenceTracker tracker(10);
    tracker.record(process(1), 1, 0);
    tracker.record(process(1), 3, 0);  // 2 is missing
    tracker.record(process(1), 3 + shift, 0);
    CHECK(tracker.record(process(1), 3, 0).arrival == Arrival::repeated);
    CHECK(tracker.record(process(1), 2, 0).arrival == Arrival::late);
  }
}

TEST_CASE("Numbers that begin again, sent later, are those of another image of the process") {
  for (const uint64_t newest : {1, 3, 500}) {
    SequenceTracker tracker(10);
    for (uint64_t seq = 1; seq <= newest; ++seq) tracker.record(process(1), seq, 1000 + seq);
    for (const uint64_t seq : {1, 2}) {
      const auto again = tracker.record(process(1), seq, 9000 + seq);
      CHECK(again.arrival == Arrival::in_order);
      CHECK(again.lost == 0);
    }
    CHECK(tracker.record(process(1), 5, 9005).lost == 2);
    CHECK(tracker.record(process(1), 5, 9005).arrival == Arrival::repeated);
    CHECK(tracker.record(process(1), 4, 9004).arrival == Arrival::late);
  }
}

TEST_CASE("What the image before it had sent is late, and loses nothing of the new one") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 100, 1000);
  tracker.record(process(1), 1, 2000);
  const auto rest = tracker.record(process(1), 101, 1001);
  CHECK(rest.arrival == Arrival::late);
  CHECK(rest.lost == 0);
  CHECK(tracker.record(process(1), 2, 2001).arrival == Arrival::in_order);
}

TEST_CASE("The rest of an old connection was sent earlier: it begins nothing") {
  SequenceTracker tracker(10);
  tracker.record(process(1), 1, 1001);
  CHECK(tracker.record(process(1), 5, 1005).lost == 3);
  for (const uint64_t seq : {2, 3, 4}) CHECK(tracker.record(process(1), seq, 1000 + seq).arrival == Arrival::late);
  CHECK(tracker.record(process(1), 3, 1003).arrival == Arrival::repeated);
  CHECK(tracker.record(process(1), 6, 1006).arrival == Arrival::in_order);
}

TEST_CASE("The process that was silent longest is forgotten first") {
  SequenceTracker tracker(2);
  tracker.record(process(1), 1, 0);
  tracker.record(process(2), 1, 0);
  tracker.record(process(1), 2, 0);
  tracker.record(process(3), 1, 0);
  CHECK(tracker.processes() == 2);
  CHECK(tracker.record(process(1), 5, 0).lost == 2);   // still known
  CHECK(tracker.record(process(2), 50, 0).lost == 0);  // was forgotten
}
