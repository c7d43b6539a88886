#include "decision/model/call_history.h"

#include <catch2/catch.hpp>

namespace ccld::decision {
namespace {

constexpr Nanoseconds begin_ns = 1000 * ns_per_s;  // the begin of ten seconds
const CallTimes times{80 * ns_per_ms, 4 * ns_per_ms};

}  // namespace

TEST_CASE("Calls are counted by ten seconds, with their mean times") {
  CallHistory history;
  for (int i = 0; i < 50; ++i)
    history.add(2, i % 2 == 0 ? std::optional(times) : std::nullopt, begin_ns + i * 100 * ns_per_ms);
  CHECK(history.over() == nullptr);
  history.settle(begin_ns + CallHistory::bucket_ns);
  REQUIRE(history.over());
  CHECK(history.over()->first == begin_ns / CallHistory::bucket_ns);
  REQUIRE(history.over()->buckets.size() == 1);
  const CallHistory::Bucket bucket = history.over()->buckets[0];
  CHECK(static_cast<double>(bucket.call_count()) == Approx(100).epsilon(0.04));
  REQUIRE(bucket.times());
  CHECK(static_cast<double>(bucket.times()->longest_ns) == Approx(80e6).epsilon(0.07));
  CHECK(static_cast<double>(bucket.times()->shortest_ns) == Approx(4e6).epsilon(0.07));
}

TEST_CASE("A pause shows as tens of seconds without calls") {
  CallHistory history;
  history.add(1, times, begin_ns);
  history.add(1, std::nullopt, begin_ns + 45 * ns_per_s);
  history.settle(begin_ns + 50 * ns_per_s);
  REQUIRE(history.over()->buckets.size() == 5);
  CHECK(history.over()->buckets[0].call_count() == 1);
  for (size_t i = 1; i < 4; ++i) {
    CHECK(history.over()->buckets[i].call_count() == 0);
    CHECK_FALSE(history.over()->buckets[i].times());
  }
  CHECK(history.over()->buckets[4].call_count() == 1);
}

TEST_CASE("A quarter of an hour is kept, in three bytes for each ten seconds") {
  static_assert(sizeof(CallHistory::Bucket) == 3);
  CallHistory history;
  for (int64_t i = 0; i < 500; ++i) history.add(1, times, begin_ns + i * CallHistory::bucket_ns);
  REQUIRE(history.over()->buckets.size() == CallHistory::buckets_max);
  CHECK(history.over()->buckets.capacity() == CallHistory::buckets_max);
  CHECK(history.over()->first ==
        begin_ns / CallHistory::bucket_ns + 499 - static_cast<int64_t>(CallHistory::buckets_max));
  history.add(1, times, begin_ns + 100'000 * ns_per_s);  // after days
  history.settle(begin_ns + 200'000 * ns_per_s);
  CHECK(history.over()->buckets.size() <= CallHistory::buckets_max);
  CHECK(history.over()->buckets.back().call_count() == 1);
}

TEST_CASE("What a reader keeps does not change") {
  CallHistory history;
  history.add(1, times, begin_ns);
  history.settle(begin_ns + CallHistory::bucket_ns);
  const auto kept = history.over();
  history.add(1, times, begin_ns + CallHistory::bucket_ns);
  history.settle(begin_ns + 2 * CallHistory::bucket_ns);
  CHECK(kept->buckets.size() == 1);
  CHECK(history.over()->buckets.size() == 2);
}

}  // namespace ccld::decision
