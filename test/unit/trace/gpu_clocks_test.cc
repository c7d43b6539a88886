#include "decision/trace/gpu_clocks.h"

#include <cmath>

#include "test/unit/trace/jobs.h"

namespace ccld::test {
namespace {

constexpr int ranks = 4;
constexpr Nanoseconds us = 1000;

// Clocks of GPUs and hosts that have nothing to do with each other, nor with the service's; `drift_ppm` of GPU 1.
struct Job {
  double drift_ppm = 0;
  uint64_t device(int rank, Nanoseconds t) const {
    const double drifted = rank == 1 ? 1e-6 * drift_ppm * static_cast<double>(t) : 0;
    return 1'700'000'000'000'000'000u * static_cast<uint64_t>(rank % 2) + 5'000'000'000u * static_cast<uint64_t>(rank + 1) + static_cast<uint64_t>(t) +
           static_cast<uint64_t>(std::llround(drifted));
  }
  uint64_t host(int rank, Nanoseconds t) const { return 77'000'000'000u * static_cast<uint64_t>(rank + 1) + static_cast<uint64_t>(t); }

  // An AllReduce every 10 ms, in which rank 2 comes 2 ms late; reports arrive 50 us after they were sent.
  std::unique_ptr<GpuClocks> run(const Directory& d, Nanoseconds length_ns) const {
    auto all = std::make_unique<GpuClocks>(d, std::vector<int>{0, 1, 2, 3}, settings);
    GpuClocks& clocks = *all;
    uint64_t op = 0;
    Nanoseconds t = 0;
    for (; t < length_ns; t += 10 * ns_per_ms) {
      ++op;
      for (int rank = 0; rank < ranks; ++rank) {
        const Nanoseconds begin = t + (rank == 2 ? 2 * ns_per_ms : 0), end = t + 2100 * us, sent = t + 5 * ns_per_ms;
        Batch b = batch_of(rank, static_cast<Nanoseconds>(host(rank, sent)));
        Rounds m;
        m.comm = world;
        m.rank = Rank{rank};
        m.rounds.push_back(round_of(op, device(rank, begin), device(rank, end), host(rank, begin - 20 * us), host(rank, begin - 5 * us)));
        b.payloads.push_back(m);
        clocks.add(b, sent + 50 * us);
      }
    }
    clocks.finish(t);
    return all;
  }
  Settings settings;
};

}  // namespace

TEST_CASE("Clocks of GPUs that differ by years become one, and it is that of the service") {
  const Job job{};
  const Directory d = directory_of(job.settings, ranks);
  const auto run = job.run(d, 5 * ns_per_s);
  const GpuClocks& clocks = *run;
  for (const Nanoseconds t : {ns_per_s, 3 * ns_per_s, 4 * ns_per_s}) {
    const Nanoseconds first = clocks.of(0).of_device(job.device(0, t));
    CHECK(std::abs(first - t) < 100 * us);  // the way of a batch, and a launch
    for (int rank = 1; rank < ranks; ++rank) CHECK(std::abs(clocks.of(rank).of_device(job.device(rank, t)) - first) < 1 * us);
  }
}

TEST_CASE("A clock that drifts is followed, and time goes on without jumps") {
  const Job job{.drift_ppm = 40, .settings = {}};
  const Directory d = directory_of(job.settings, ranks);
  const auto run = job.run(d, 20 * ns_per_s);
  const GpuClocks& clocks = *run;
  Nanoseconds before = INT64_MIN;
  for (Nanoseconds t = 2 * ns_per_s; t < 18 * ns_per_s; t += 7 * ns_per_ms) {
    const Nanoseconds at = clocks.of(1).of_device(job.device(1, t));
    REQUIRE(at > before);
    REQUIRE(std::abs(at - clocks.of(0).of_device(job.device(0, t))) < 60 * us);  // half a window of drift
    before = at;
  }
}

TEST_CASE("How far a clock may be wrong is what the order of events proves") {
  const Job job{};
  const Directory d = directory_of(job.settings, ranks);
  const auto run = job.run(d, 3 * ns_per_s);
  const GpuClocks& clocks = *run;
  for (int rank = 0; rank < ranks; ++rank) {
    REQUIRE_FALSE(clocks.of(rank).knots().empty());
    const Knot& k = clocks.of(rank).knots().front();
    // Rank 2 begins 100 us before all end: nobody's events can be more than that earlier, nor its own later.
    if (rank == 2) CHECK(std::abs(k.later_ns - 100e3) < 2e3);
    else CHECK(std::abs(k.earlier_ns - 100e3) < 2e3);
    CHECK(std::isfinite(k.earlier_ns + k.later_ns));
  }
}

TEST_CASE("A launch is shown before its kernel on the same clock") {
  const Job job{};
  const Directory d = directory_of(job.settings, ranks);
  const auto run = job.run(d, 3 * ns_per_s);
  const GpuClocks& clocks = *run;
  const Nanoseconds t = ns_per_s;
  const Nanoseconds launched = clocks.of(3).of_host(job.host(3, t - 5 * us)), begun = clocks.of(3).of_device(job.device(3, t));
  CHECK(std::abs(begun - launched) < 1 * us);  // the quickest launch counts as none
  CHECK(clocks.earliest_ns() < 100 * us);
}

TEST_CASE("Without any kernel the host's clock is tied to the service's by its batches") {
  const Settings settings{};
  const Directory d = directory_of(settings, ranks);
  GpuClocks clocks(d, {0, 1}, settings);
  clocks.add(batch_of(0, 5'000), 1'000'000);
  clocks.finish(2'000'000);
  CHECK(clocks.of(0).knots().empty());
  CHECK(clocks.of(0).of_host(6'000) == 1'001'000);
}

}  // namespace ccld::test
