#include "schemas/abi/round_end.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

namespace ccld::abi {
namespace {

uint64_t told(uint64_t duration_ns) { return end_duration_ns(pack_end(1, 0, duration_ns)); }

TEST_CASE("a word of zero is no end, and every end is one") {
  CHECK_FALSE(has_end(0));
  CHECK_FALSE(has_end(pack_end(5 * lap_runs, round_aborted, 0) & 0xff));  // of a lap and a flag alone
  for (const uint32_t run : {1u, lap_runs - 1, lap_runs, 128 * lap_runs, ~0u})
    for (unsigned bit = 0; bit < 64; ++bit) CHECK(has_end(pack_end(run, 0, (uint64_t{1} << bit) - 1)));
}

TEST_CASE("short durations are exact") {
  for (const uint64_t ns : {0u, 1u, 2u, 999u, 6000u, (1u << 20) - 3, (1u << 20) - 2}) CHECK(told(ns) == ns);
}

TEST_CASE("longer ones are four millionths short at most, never more than they were") {
  constexpr uint64_t limit = uint64_t{1} << 50;  // 13 days
  const auto check = [](uint64_t ns) {
    CAPTURE(ns);
    const uint64_t t = told(ns);
    CHECK(t <= ns);
    CHECK(double(ns - t) <= double(ns) * 4e-6);
  };
  // Where the exponent grows.
  for (unsigned bit = 20; bit < 50; ++bit)
    for (int64_t around = -3; around <= 3; ++around)
      check(std::min<uint64_t>((uint64_t{1} << bit) + static_cast<uint64_t>(around), limit - 2));
  check(275'000'000'000);  // 64 ns turn in 32 bits after 275 s
  check(24 * 3600 * uint64_t{1'000'000'000});
  check(limit - 2);
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) check((random() >> (random() % 64)) % (limit - 1));
}

TEST_CASE("what cannot be told is 0 and leaves lap and flag alone") {
  for (const uint64_t ns : {(uint64_t{1} << 50) - 1, uint64_t{1} << 63, ~uint64_t{0} - 1, ~uint64_t{0}}) {
    CAPTURE(ns);
    const uint32_t word = pack_end(3 * lap_runs, round_aborted, ns);
    CHECK(has_end(word));
    CHECK(end_duration_ns(word) == 0);
    CHECK((word & end_lap_mask) == 3);
    CHECK(end_flags(word) == round_aborted);
  }
}

TEST_CASE("the flag and the duration do not touch each other") {
  for (const uint64_t ns : {uint64_t{0}, uint64_t{5000}, uint64_t{1} << 40}) {
    CHECK(end_flags(pack_end(9, 0, ns)) == 0);
    CHECK(end_flags(pack_end(9, round_aborted, ns)) == round_aborted);
    CHECK(end_duration_ns(pack_end(9, 0, ns)) == end_duration_ns(pack_end(~0u, round_aborted, ns)));
  }
}

TEST_CASE("a run is told by its lap and the begin beside it") {
  std::mt19937 random(11);
  for (int i = 0; i < 10000; ++i) {
    // Near the ends of the runs and of the laps, and anywhere.
    const uint32_t run = i % 3 == 0   ? random()
                         : i % 3 == 1 ? 0u - random() % 500
                                      : 128 * lap_runs * (random() % 4) + random() % 500;
    const uint32_t place = run % lap_runs;
    CAPTURE(run);
    const uint32_t word = pack_end(run, 0, random());
    CHECK(run_of_end(place, run, word) == run);
    CHECK(run_of_end(place, run + lap_runs, word) == run);
    CHECK(run_of_end(place, run - lap_runs, word) == run);
  }
  // The first kernel of a place, whose begin is not to be seen yet.
  CHECK(run_of_end(5, 0, pack_end(5, 0, 1)) == 5);
  CHECK(run_of_end(0, 0, pack_end(lap_runs, 0, 1)) == lap_runs);
}

}  // namespace
}  // namespace ccld::abi
