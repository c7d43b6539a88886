#include "decision/ingest/ingest.h"

#include <catch2/catch.hpp>

#include "decision/ingest/limits.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision {

using namespace ingest;
using namespace test;

namespace {

constexpr int64_t sent_ns = 1'700'000'000'000'000'000;

std::optional<Batch> accept(Ingest& ingest, const Bytes& bytes, Nanoseconds now_ns = 0) {
  return ingest.accept(absl::MakeConstSpan(bytes), now_ns, sent_ns + 5 * ns_per_ms);
}

}  // namespace

TEST_CASE("Accepted batches are counted with bytes, payloads and lag") {
  Ingest ingest;
  const Bytes bytes = full_batch();
  REQUIRE(accept(ingest, bytes).has_value());
  CHECK(ingest.counters().batches == 1);
  CHECK(ingest.counters().bytes == bytes.size());
  CHECK(ingest.counters().payloads == full_batch_payloads);
  CHECK(ingest.counters().lag_ns == 5 * ns_per_ms);
  CHECK(ingest.counters().rejected_total() == 0);
}

TEST_CASE("Refused messages are counted by reason and remembered once per cause, and ingest goes on") {
  Ingest ingest;
  const std::string junk = "this is not telemetry";
  for (int i = 0; i < 3; ++i) CHECK_FALSE(accept(ingest, Bytes(junk.begin(), junk.end()), 10 + i).has_value());
  for (int32_t rank = 2; rank < 6; ++rank) {
    WireBatch b;
    add_comm_up(b, {.rank = rank});
    CHECK_FALSE(accept(ingest, b.finish(), 20 + rank).has_value());
  }
  CHECK(ingest.counters().rejected[static_cast<size_t>(RejectReason::identifier)] == 3);
  CHECK(ingest.counters().rejected[static_cast<size_t>(RejectReason::field)] == 4);
  CHECK(ingest.counters().rejected_total() == 7);

  const auto& errors = ingest.errors().all();
  REQUIRE(errors.size() == 2);  // four values of one field are one cause
  CHECK(errors[0].count == 3);
  CHECK(errors[0].first_ns == 10);
  CHECK(errors[0].last_ns == 12);
  CHECK(errors[1].count == 4);
  CHECK(errors[1].text == "CommUp.rank is 2, outside 0..1");
  CHECK(accept(ingest, full_batch()).has_value());
}

TEST_CASE("Every damaged byte and every truncation is counted, and ingest goes on") {
  Ingest ingest;
  const Bytes whole = full_batch();
  uint64_t calls = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    Bytes damaged = whole, cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at));
    damaged[at] = static_cast<uint8_t>(damaged[at] ^ 0x55);
    accept(ingest, damaged);
    accept(ingest, cut);
    calls += 2;
  }
  const IngestCounters& c = ingest.counters();
  CHECK(c.batches + c.rejected_total() + c.repeated_batches == calls);
  CHECK(c.rejected_total() > calls / 2);
  CHECK(ingest.errors().all().size() <= distinct_errors_max);
  CHECK(accept(ingest, full_batch({.pid = 1, .batch_seq = 1})).has_value());
}

TEST_CASE("A gap in the batch numbers is counted as lost, per process") {
  Ingest ingest;
  for (const uint64_t seq : {5, 6, 9}) accept(ingest, full_batch({.batch_seq = seq}));
  accept(ingest, full_batch({.pid = 1, .batch_seq = 100}));
  CHECK(ingest.counters().batches == 4);
  CHECK(ingest.counters().lost_batches == 2);
  SECTION("one that comes later is passed on") {
    CHECK(accept(ingest, full_batch({.batch_seq = 7})).has_value());
    CHECK(ingest.counters().late_batches == 1);
  }
  SECTION("one that comes again is dropped") {
    CHECK_FALSE(accept(ingest, full_batch({.batch_seq = 6})).has_value());
    CHECK(ingest.counters().repeated_batches == 1);
    CHECK(ingest.counters().batches == 4);
  }
  SECTION("a restarted process with the same pid counts anew") {
    CHECK(accept(ingest, full_batch({.pid_start_ticks = 1, .batch_seq = 1})).has_value());
    CHECK(ingest.counters().lost_batches == 2);
  }
}

}  // namespace ccld::decision
