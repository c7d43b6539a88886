#include "decision/iteration/iteration_times.h"

#include <catch2/catch.hpp>
#include <random>

#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {
namespace {

// Iterations of `operations` rounds of four ranks, told to an IterationTimes.
struct Witness {
  Settings settings;
  IterationTimes times{settings};
  std::mt19937 random{1};
  uint64_t op = 0, device_ns = 1'000'000'000;
  Nanoseconds now_ns = 100 * ns_per_s;
  double noise = 0.02;

  void round(uint64_t count, double gap_ms, double comm_ms, int late_rank = -1, double late_ms = 0, bool lost = false) {
    std::normal_distribution<double> spread(1, noise);
    gap_ms *= std::max(0.1, spread(random));
    RoundEntry e;
    e.op = OpSeq{++op};
    Signature s = fake::all_reduce(count);
    e.groups.push_back({s, 4});
    const double longest = gap_ms + late_ms;
    for (int r = 0; r < 4; ++r) {
      const double gap = gap_ms + (r == late_rank ? late_ms : 0);
      RoundCell c;
      c.gap_ns = static_cast<Nanoseconds>(gap * 1e6);
      c.begin_device_ns = device_ns + static_cast<uint64_t>(gap * 1e6);
      c.end_device_ns = device_ns + static_cast<uint64_t>((longest + comm_ms) * 1e6);
      c.reported = c.timed = true;
      e.cells.push_back(c);
    }
    device_ns += static_cast<uint64_t>((longest + comm_ms) * 1e6);
    now_ns += static_cast<Nanoseconds>((longest + comm_ms) * 1e6);
    if (!lost) times.add(e, now_ns);
  }
  void iterations(int n, double gap_ms, double comm_ms, int late_rank = -1, double late_ms = 0) {
    for (int i = 0; i < n; ++i) {
      round(1000, gap_ms, comm_ms, late_rank, late_ms);
      round(1000, gap_ms, comm_ms, late_rank, late_ms);
      round(2000, gap_ms, comm_ms, late_rank, late_ms);
    }
  }
  std::optional<IterationChange> risen() const { return times.risen(now_ns); }
};

}  // namespace

TEST_CASE("The iteration time is that of the operations that repeat, whatever their number") {
  Witness w;
  w.iterations(200, 90, 10);
  CHECK(w.times.period() == 3);
  CHECK(w.times.in_pattern());
  CHECK(w.times.usual().time_ns == Approx(300e6).epsilon(0.03));
  CHECK(w.times.usual().communication_ns == Approx(30e6).epsilon(0.03));
  CHECK_FALSE(w.risen());
}

TEST_CASE("Equal operations of which the first come without a pause have the period of their pauses all the same") {
  Witness w;
  for (int i = 0; i < 40; ++i)
    for (int o = 0; o < 40; ++o) w.round(1000, o == 0 && i > 0 ? 1000 : 5, 1);
  CHECK(w.times.period() == 40);
}

TEST_CASE("Iterations that got longer for good are reported once it has lasted") {
  Witness w;
  w.iterations(200, 90, 10);
  w.iterations(60, 140, 10);
  CHECK_FALSE(w.risen());  // 27 s
  w.iterations(30, 140, 10);
  const auto change = w.risen();
  REQUIRE(change);
  CHECK(change->before.time_ns == Approx(300e6).epsilon(0.03));
  CHECK(change->after.time_ns == Approx(450e6).epsilon(0.03));
  CHECK(change->since.value > 590);
  CHECK(change->since.value < 620);
  CHECK_FALSE(change->rank);  // all ranks got slower
  w.iterations(100, 90, 10);
  CHECK_FALSE(w.risen());
}

TEST_CASE("Iterations that got longer stay so for as long as they are") {
  Witness w;
  w.iterations(200, 90, 10);
  for (int s = 45; s <= 540; s += 45) {
    w.iterations(100, 140, 10);
    const auto change = w.risen();
    INFO(s);
    REQUIRE(change);
    CHECK(static_cast<double>(change->lasts_ns) == Approx(s * 1e9).margin(2e9));
    CHECK(change->before.time_ns == Approx(300e6).epsilon(0.03));
    CHECK(change->since.value > 590);
    CHECK(change->since.value < 620);
  }
  w.iterations(100, 90, 10);
  CHECK_FALSE(w.risen());
}

TEST_CASE("A rise that begins with a jitter is one") {
  Witness w;
  w.settings.slow_window_s = 2.5;
  w.noise = 0;
  w.iterations(9, 190, 10);  // until the period is known
  // Of a link that became slow. The jitter before it looks like a change of its own.
  const auto last_ms = [&](std::initializer_list<double> all) {
    for (const double ms : all) w.iterations(1, (2 * ms - 30) / 3, 10);
  };
  last_ms({301, 299, 287, 308, 296, 295, 300, 293, 300, 307, 305, 312});
  last_ms({301, 334, 290, 300, 386});
  const uint64_t began = w.op;
  last_ms({491, 507, 560, 487, 573, 490, 483, 485, 511, 489, 494, 498, 503, 497, 508, 493, 499, 486, 483, 484, 491});
  const auto change = w.risen();
  REQUIRE(change);
  CHECK(change->before.time_ns == Approx(600e6).epsilon(0.03));
  CHECK(change->since.value > began - 12);
  CHECK(change->since.value < began + 12);
}

TEST_CASE("A slower phase after a short one is no rise") {
  Witness w;
  w.iterations(60, 90, 10);  // 18 s
  w.iterations(100, 140, 10);
  CHECK_FALSE(w.risen());
}

TEST_CASE("A rank whose gaps alone grew stands out") {
  Witness w;
  w.iterations(200, 90, 10);
  w.iterations(100, 90, 10, 2, 50);
  const auto change = w.risen();
  REQUIRE(change);
  REQUIRE(change->rank);
  CHECK(change->rank->value == 2);
  CHECK(change->rank_part > 0.8);
}

TEST_CASE("Communication that grew shows as such") {
  Witness w;
  w.iterations(200, 90, 10);
  w.iterations(100, 90, 60);
  const auto change = w.risen();
  REQUIRE(change);
  CHECK(change->after.communication_ns - change->before.communication_ns == Approx(150e6).epsilon(0.05));
}

TEST_CASE("Jitter, pauses, slow phases that end, and faster iterations are no rise") {
  Witness w;
  w.noise = 0.15;
  w.iterations(200, 90, 10);
  SECTION("jitter") { w.iterations(500, 90, 10); }
  SECTION("pauses") {
    for (int i = 0; i < 30; ++i) {
      w.iterations(10, 90, 10);
      w.round(1000, 3000, 10);
      w.round(1000, 90, 10);
      w.round(2000, 90, 10);
    }
  }
  SECTION("a slow phase of ten seconds now and then") {
    for (int i = 0; i < 5; ++i) {
      w.iterations(20, 150, 10);
      CHECK_FALSE(w.risen());
      w.iterations(100, 90, 10);
    }
  }
  SECTION("a slow phase that ends in a checkpoint") {
    w.iterations(40, 150, 10);  // 19 s
    w.now_ns += 60 * ns_per_s;
    CHECK_FALSE(w.risen());
    w.device_ns += uint64_t{60} * ns_per_s;
    w.iterations(5, 150, 10);
    CHECK_FALSE(w.risen());
    w.iterations(100, 90, 10);
  }
  SECTION("faster") { w.iterations(300, 60, 10); }
  CHECK_FALSE(w.risen());
}

TEST_CASE("An evaluation with other operations is another pattern, not a slow iteration") {
  Witness w;
  w.iterations(200, 90, 10);
  for (int i = 0; i < 60; ++i) w.round(3000, 800, 10);  // 48 s
  CHECK_FALSE(w.risen());
  CHECK_FALSE((w.times.period() == 3 && w.times.in_pattern()));
  w.iterations(100, 90, 10);
  CHECK_FALSE(w.risen());
}

TEST_CASE("Lost rounds lose iterations and do not shift them") {
  Witness w;
  for (int i = 0; i < 900; ++i) w.round(i % 3 == 2 ? 2000 : 1000, 90, 10, -1, 0, i % 31 == 7);
  CHECK(w.times.period() == 3);
  CHECK(w.times.usual().time_ns == Approx(300e6).epsilon(0.05));
  CHECK_FALSE(w.risen());
}

TEST_CASE("A level that was accepted is the usual one") {
  Witness w;
  w.iterations(200, 90, 10);
  w.iterations(120, 140, 10);
  REQUIRE(w.risen());
  w.times.accept();
  CHECK_FALSE(w.risen());
  w.iterations(300, 140, 10);
  CHECK_FALSE(w.risen());
}

TEST_CASE("The place of an operation in the iteration counts from the longest pause") {
  Witness w;
  for (int i = 0; i < 100; ++i) {
    w.round(1000, 200, 10);
    w.round(1000, 20, 10);
    w.round(2000, 20, 10);
    w.round(2000, 20, 10);
  }
  REQUIRE(w.times.period() == 4);
  CHECK(w.times.position(OpSeq{401}) == 0.0);
  CHECK(w.times.position(OpSeq{403}) == 0.5);
}

}  // namespace ccld::decision
