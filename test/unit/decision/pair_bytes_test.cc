#include "decision/locate/pair_bytes.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/pipeline.h"

namespace ccld::decision {

using abi::Direction;

namespace {

// So many healthy transfers from each stage to the next.
void transfers(Pipeline& p, uint64_t from, uint64_t to) {
  for (uint64_t k = from; k <= to; ++k)
    for (size_t r = 0; r + 1 < p.calls.size(); ++r) {
      p.end_call(static_cast<int>(r), Direction::send, static_cast<int>(r) + 1, k);
      p.end_call(static_cast<int>(r) + 1, Direction::recv, static_cast<int>(r), k);
    }
}

double bytes_of(const Incident& i, int rank, const std::string& what) {
  for (const Evidence& e : i.evidence)
    if (e.rank == rank && words(e).find(what) == 0) return e.value;
  return -1;
}

}  // namespace

TEST_CASE("Two ends of a call that ended with different byte counts are candidates, with both counts") {
  Pipeline p(3);
  transfers(p, 1, 20);
  const bool sender_first = GENERATE(true, false);
  if (sender_first) p.end_call(0, Direction::send, 1, 21, 1024);
  p.end_call(1, Direction::recv, 0, 21, 4096);
  if (!sender_first) p.end_call(0, Direction::send, 1, 21, 1024);
  p.run_s(2);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(open[0].title == "byte counts of Send and Recv differ");
  CHECK(open[0].culprits.empty());
  CHECK(ranks_of(open[0].candidates) == std::set<int>{0, 1});
  CHECK(bytes_of(open[0], 0, "Send 21 to rank 1") == 1024);
  CHECK(bytes_of(open[0], 1, "Recv 21 from rank 0") == 4096);
}

TEST_CASE("Equal byte counts are silent, in whatever order, twice or with losses") {
  Pipeline p(4);
  for (uint64_t k = 1; k <= 300; ++k) {
    const uint64_t bytes = 1000 + k;
    if (k % 7 != 0) p.end_call(0, Direction::send, 1, k, bytes);
    if (k % 5 != 0) p.end_call(1, Direction::recv, 0, k, bytes);
    if (k % 3 == 0) p.end_call(0, Direction::send, 1, k, bytes);  // again
    p.end_call(2, Direction::recv, 1, k, 8);
    if (k > 40) p.end_call(1, Direction::send, 2, k - 40, 8);
  }
  p.run_s(3);
  CHECK(p.reported.empty());
}

TEST_CASE("A rank whose byte counts differ from those of several peers is the culprit, and it stays one incident") {
  Pipeline p(4);
  transfers(p, 1, 20);
  p.end_call(0, Direction::send, 1, 21, 4096);
  p.end_call(1, Direction::recv, 0, 21, 2048);
  p.run_s(1);
  REQUIRE(p.open().size() == 1);
  CHECK(ranks_of(p.open()[0].candidates) == std::set<int>{0, 1});
  p.end_call(1, Direction::send, 2, 21, 2048);
  p.end_call(2, Direction::recv, 1, 21, 4096);
  p.run_s(1);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].candidates.empty());
  CHECK(p.analyzer.incidents().size() == 1);
}

TEST_CASE(
    "A call that hangs because its ends want different byte counts is an inconsistency and no fault of the network") {
  Pipeline p(3, {}, true);
  transfers(p, 1, 20);
  SECTION("the sender has ended: the receiver waits for what never comes") {
    p.end_call(0, Direction::send, 1, 21, 1024);
    p.kernel(1, Direction::recv, 0, 21, true);
  }
  SECTION("both stand inside") {
    p.kernel(0, Direction::send, 1, 21, false);
    p.calls[0].back().second.bytes = 1024;
    p.kernel(1, Direction::recv, 0, 21, true);
  }
  p.kernel(2, Direction::recv, 1, 21, true);
  p.run_s(30);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(open[0].candidates) == std::set<int>{0, 1});
  CHECK(bytes_of(open[0], 0, "Send 21 to rank 1") == 1024);
  CHECK(p.analyzer.incidents().size() == 1);
}

TEST_CASE("Replays of recorded calls are compared as calls are") {
  Pipeline p(2);
  for (uint32_t replay = 1; replay <= 3; ++replay) {
    p.end_call(0, Direction::send, 1, 1, 4096, replay);
    p.end_call(1, Direction::recv, 0, 1, 512, replay);
  }
  p.run_s(1);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(open[0].replay == 1);
  CHECK(bytes_of(open[0], 1, "Recv 1, replay 1 from rank 0") == 512);
}

TEST_CASE("A rank that sends to itself another number of bytes than it receives is the culprit") {
  Pipeline p(2);
  p.end_call(1, Direction::send, 1, 1, 4096);
  p.end_call(1, Direction::recv, 1, 1, 512);
  p.run_s(1);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
}

TEST_CASE("Calls whose other end is never heard of take bounded memory, and what comes in time is still compared") {
  Pipeline p(2);
  for (uint64_t k = 1; k <= 100'000; ++k) p.end_call(0, Direction::send, 1, k);
  p.end_call(1, Direction::recv, 0, 100'000, 8);
  p.end_call(1, Direction::recv, 0, 7, 8);  // long forgotten
  p.run_s(1);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(bytes_of(open[0], 1, "Recv 100000 from rank 0") == 8);
  CHECK(bytes_of(open[0], 1, "Recv 7 from rank 0") == -1);
}

}  // namespace ccld::decision
