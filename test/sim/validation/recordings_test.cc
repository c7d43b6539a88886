// Recordings of real NCCL runs and simulated runs of the same faults: what both must share.
#include <catch2/catch.hpp>

#include "decision/ingest/batch_decoder.h"
#include "decision/recording/reader.h"
#include "test/sim/simulation.h"
#include "test/sim/validation/facts.h"

namespace ccld::sim {
namespace {

using namespace decision;

Facts of_recording(const std::string& name) {
  Facts facts;
  auto reader = recording::Reader::open(std::string(CCLD_GOLDEN) + "/" + name + ".ccldrec");
  INFO(name << ": " << (reader.ok() ? std::string() : std::string(reader.status().message())));
  REQUIRE(reader.ok());
  recording::Entry entry;
  while (reader->next(entry).value_or(false)) {
    if (entry.message.empty()) continue;
    if (const auto batch = ingest::decode_batch(entry.message); batch.ok()) facts.add(*batch);
  }
  return facts;
}

Facts of_simulation(FaultKind kind, int seeds) {
  Facts facts;
  for (int found = 0, seed = 1; found < seeds; ++seed) {
    RunOptions options;
    options.wishes.fault = kind;
    const Scenario sc = draw(static_cast<uint64_t>(seed), options.wishes);
    if (sc.sizes.processes() > 16 || sc.sizes.pipeline > 1 || sc.disturbance.loss > 0 || sc.earlier_start >= 0) continue;
    ++found;
    Facts one;
    options.on_batch = [&](const Batch& b) { one.add(b); };
    run_seed(static_cast<uint64_t>(seed), options);
    facts.snapshots += one.snapshots;
    facts.late_snapshots += one.late_snapshots;
    facts.proxies += one.proxies;
    facts.uncertain_waits += one.uncertain_waits;
    facts.data_waits += one.data_waits;
    facts.credit_waits += one.credit_waits;
    facts.counters_out_of_order += one.counters_out_of_order;
    facts.poll_age_max_ms = std::max(facts.poll_age_max_ms, one.poll_age_max_ms);
    facts.proxy_window_max = std::max(facts.proxy_window_max, one.proxy_window_max);
    for (const auto& [steps, n] : one.ahead) facts.ahead[steps] += n;
    facts.late_gaps_ms.insert(facts.late_gaps_ms.end(), one.late_gaps_ms.begin(), one.late_gaps_ms.end());
    facts.idle_gaps_ms.insert(facts.idle_gaps_ms.end(), one.idle_gaps_ms.begin(), one.idle_gaps_ms.end());
  }
  return facts;
}

void shared(const Facts& f) {
  std::string ahead;
  for (const auto& [steps, n] : f.ahead) ahead += std::to_string(steps) + " x " + std::to_string(n) + ", ";
  INFO("late snapshots " << f.late_snapshots << " of " << f.snapshots << ", waits for data " << f.data_waits << " (uncertain "
                         << f.uncertain_waits << "), for credit " << f.credit_waits << ", steps ahead " << ahead
                         << "proxies " << f.proxies << ", window " << f.proxy_window_max << ", polls up to "
                         << f.poll_age_max_ms << " ms, between late snapshots " << f.median(f.late_gaps_ms)
                         << " ms, otherwise " << f.median(f.idle_gaps_ms) << " ms");
  CAPTURE(f.counters_out_of_order);
  CHECK(f.late_snapshots > 20);
  CHECK(f.data_waits > 0);
  CHECK(f.counters_out_of_order == 0);
  // Slots bound what a proxy has in hand, and a wait is for the next step or the next slice.
  CHECK(f.proxy_window_max <= static_cast<uint32_t>(slots_in_steps));
  for (const auto& [steps, n] : f.ahead) CHECK((steps >= 1 && steps <= 4));
  CHECK(f.median(f.late_gaps_ms) == Approx(100).margin(25));
  CHECK(f.median(f.idle_gaps_ms) == Approx(1000).margin(150));
}

TEST_CASE("a frozen channel looks alike in a real and in a simulated run") {
  SECTION("real ring") { shared(of_recording("h3_frozen_ring")); }
  SECTION("real tree") { shared(of_recording("h3_frozen_tree")); }
  SECTION("simulated") { shared(of_simulation(FaultKind::frozen_channel, 4)); }
}

TEST_CASE("a cut link looks alike in a real and in a simulated run") {
  SECTION("real") { shared(of_recording("h3_cut_link")); }
  SECTION("simulated") { shared(of_simulation(FaultKind::cut_link, 4)); }
}

}  // namespace
}  // namespace ccld::sim
