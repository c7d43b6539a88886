#include "decision/model/run_delays.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

namespace {

constexpr Nanoseconds s = ns_per_s;

// Waits for `part` of the time from one instant to another, told every second.
void wait(RunDelayHistory& h, RunDelay& sum, Nanoseconds from, Nanoseconds to, double part) {
  for (Nanoseconds at = from + s; at <= to; at += s) {
    sum.main_ns += static_cast<Nanoseconds>(part * s);
    sum.proxies_ns += static_cast<Nanoseconds>(part * s / 2);
    h.add(sum, at);
  }
}

}  // namespace

TEST_CASE("Waits between two instants are read off the samples around them") {
  RunDelayHistory h;
  RunDelay sum;
  h.add(sum, 100 * s);
  wait(h, sum, 100 * s, 110 * s, 0.1);
  wait(h, sum, 110 * s, 120 * s, 0.9);
  const auto half = h.between(110 * s - s / 2, 110 * s + s / 2);
  REQUIRE(half);
  CHECK(half->main_ns == Approx(0.5 * s).margin(1e4));
  CHECK(half->proxies_ns == Approx(0.25 * s).margin(1e4));
  // A little beyond the newest it goes on as before; further on nothing is known.
  CHECK(h.between(119 * s, 121 * s)->main_ns == Approx(1.8 * s).margin(1e4));
  CHECK_FALSE(h.between(125 * s, 130 * s));
  CHECK_FALSE(h.between(50 * s, 60 * s));
  CHECK_FALSE(RunDelayHistory().between(0, s));
}

TEST_CASE("How long a turn is waited for is told by the worst second between two instants") {
  ProcessorTurns t;
  CHECK_FALSE(t.longest_wait_ns(90 * s, 100 * s));
  int64_t turns = 100;
  Nanoseconds waits_ns = s;
  const auto second = [&](Nanoseconds at, int64_t more, Nanoseconds each_ns) {
    turns += more, waits_ns += more * each_ns;
    t.add(turns, waits_ns, at);
  };
  t.add(turns, waits_ns, 100 * s);
  second(101 * s, 500, 2 * ns_per_ms);
  for (int i = 2; i < 9; ++i) second((100 + i) * s, 100'000, 10'000);
  CHECK(static_cast<double>(*t.longest_wait_ns(98 * s, 108 * s)) == Approx(2e6).epsilon(0.01));
  for (int i = 9; i < 14; ++i) second((100 + i) * s, 100'000, 10'000);
  CHECK(static_cast<double>(*t.longest_wait_ns(103 * s, 113 * s)) == Approx(1e4).epsilon(0.01));
}

TEST_CASE("Nobody waits for longer than there is, though a wait may be told late") {
  RunDelayHistory h;
  h.add({0, 0}, 100 * s);
  h.add({6 * s, s / 2}, 101 * s);
  CHECK(h.between(100 * s, 101 * s)->main_ns == s);
  CHECK(h.between(100 * s, 101 * s)->proxies_ns == Approx(0.5 * s).margin(1e4));
}

TEST_CASE("Minutes are kept in few samples, the newest of them close together") {
  RunDelayHistory h;
  RunDelay sum;
  h.add(sum, 1000 * s);
  wait(h, sum, 1000 * s, 1600 * s, 0.2);
  wait(h, sum, 1600 * s, 1605 * s, 0.8);
  CHECK(h.oldest_ns() <= 1500 * s);
  CHECK(h.between(1600 * s, 1605 * s)->main_ns == Approx(4.0 * s).margin(0.01 * s));
  CHECK(h.between(h.oldest_ns(), 1600 * s)->main_ns == Approx(0.2 * (1600 * s - h.oldest_ns())).epsilon(0.02));
}

TEST_CASE("Counters that fall begin anew, and those of an hour do not overflow") {
  RunDelayHistory h;
  h.add({10 * s, 0, 0, 0}, 100 * s);
  h.add({11 * s, 0, 0, 0}, 101 * s);
  h.add({1 * s, 0, 0, 0}, 102 * s);
  CHECK(h.oldest_ns() == 102 * s);
  const Nanoseconds hours = 4294 * s;
  RunDelayHistory old;
  old.add({hours, 0, 0, 0}, 100 * s);
  old.add({hours + 2 * s, 0, 0, 0}, 104 * s);
  CHECK(old.between(100 * s, 104 * s)->main_ns == Approx(2.0 * s).margin(1e4));
  // Nonsense of a damaged message is taken without harm.
  old.add({INT64_MIN, INT64_MAX, -1, INT64_MIN}, 106 * s);
  old.add({INT64_MAX, INT64_MIN, 1, INT64_MAX}, 107 * s);
  old.between(100 * s, 108 * s);
}

}  // namespace ccld::decision
