#include "decision/model/metric_table.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

using abi::MetricId;

namespace {

Metrics metrics(std::vector<Metric> values) { return {std::move(values)}; }

bool says(const std::vector<AlsoSeen>& seen, const std::string& part) {
  for (const AlsoSeen& s : seen)
    if (s.what.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("The newest value of every metric and instance is kept, in order, with how it began") {
  MetricTable t = merged(
      nullptr,
      metrics(
          {{MetricId::gpu_xid_count, "b", 1}, {MetricId::gpu_xid_count, "a", 5}, {MetricId::agent_samples, "", 10}}),
      1);
  t = merged(&t, metrics({{MetricId::agent_samples, "", 30}, {MetricId::gpu_xid_count, "a", 5}}), ns_per_s);
  REQUIRE(t.size() == 3);
  CHECK(t[0].id == MetricId::agent_samples);
  CHECK(t[0].value == 30);
  CHECK(t[0].first == 10);
  CHECK(t[0].increased_ns == ns_per_s);
  CHECK(t[1].instance == "a");
  CHECK(t[1].increased_ns == 0);
  CHECK(t[2].value == 1);  // not repeated yet
  t = merged(&t, metrics({{MetricId::agent_samples, "", 31}}), 100 * ns_per_s);
  CHECK(t.size() == 1);  // a source that is gone is forgotten
}

TEST_CASE("A process cannot fill the memory with metrics") {
  std::vector<Metric> many;
  for (int i = 0; i < 5000; ++i) many.push_back({MetricId::port_state, "port" + std::to_string(i), 4});
  CHECK(merged(nullptr, metrics(std::move(many)), 1).size() == metrics_kept_max);
}

TEST_CASE("A healthy process has nothing to show") {
  MetricTable t = merged(nullptr,
                         metrics({{MetricId::port_state, "mlx5_0:1", 4},
                                  {MetricId::gpu_throttle_reasons, "gpu", 1},  // idle
                                  {MetricId::gpu_xid_last, "gpu", 0},
                                  {MetricId::process_threads_stopped, "", 0},
                                  {MetricId::cgroup_throttled_us, "", 5000}}),
                         1);
  t = merged(&t, metrics({{MetricId::cgroup_throttled_us, "", 5000}}), 2);
  CHECK(also_seen(t, "", {}, 3).empty());
}

TEST_CASE("XIDs, ports, throttling, stopped threads, clocks and memory pressure are shown") {
  const auto bad = metrics({{MetricId::port_state, "mlx5_0:1", 1},
                            {MetricId::gpu_throttle_reasons, "0000:10:00.0", 0x41},
                            {MetricId::gpu_xid_last, "0000:10:00.0", 79},
                            {MetricId::gpu_xid_last, "0000:20:00.0", 31},
                            {MetricId::process_threads_stopped, "", 3},
                            {MetricId::cgroup_throttled_us, "", 9000},
                            {MetricId::pressure_memory_full_us, "", 7000}});
  const auto before = metrics({{MetricId::cgroup_throttled_us, "", 5000}, {MetricId::pressure_memory_full_us, "", 1}});
  MetricTable t = merged(nullptr, before, 1);
  t = merged(&t, bad, ns_per_s);
  const auto seen = also_seen(t, "0000:10:00.0", {"mlx5_0"}, 2 * ns_per_s);
  CHECK(seen.size() == 6);
  CHECK(says(seen, "network port is not up, state (mlx5_0:1)"));
  CHECK(says(seen, "slows its clocks down"));
  CHECK(says(seen, "last XID (0000:10:00.0)"));
  CHECK_FALSE(says(seen, "0000:20:00.0"));  // another GPU
  CHECK(says(seen, "stopped"));
  CHECK(says(seen, "throttled"));
  CHECK(says(seen, "lack of memory"));
  CHECK(also_seen(t, "", {"mlx5_0"}, 2 * ns_per_s).size() == 7);
  // Throttling that ended long ago explains nothing.
  CHECK_FALSE(says(also_seen(t, "", {}, 60 * ns_per_s), "throttled"));
}

TEST_CASE("An XID has the time at which the probe counted it, and none if it was there before") {
  const auto xids = [](int64_t last, int64_t count) {
    return metrics({{MetricId::gpu_xid_last, "gpu", last}, {MetricId::gpu_xid_count, "gpu", count}});
  };
  MetricTable t = merged(nullptr, xids(31, 1), ns_per_s);
  REQUIRE(also_seen(t, "", {}, ns_per_s).size() == 1);
  CHECK(also_seen(t, "", {}, ns_per_s)[0].at_ns == 0);
  t = merged(&t, xids(79, 2), 5 * ns_per_s);
  t = merged(&t, xids(79, 2), 6 * ns_per_s);
  CHECK(also_seen(t, "", {}, 6 * ns_per_s)[0].value == 79);
  CHECK(also_seen(t, "", {}, 6 * ns_per_s)[0].at_ns == 5 * ns_per_s);
}

TEST_CASE("A port that nobody uses and that never was up is not worth a word, one that went down is") {
  MetricTable t = merged(nullptr, metrics({{MetricId::port_state, "ifb0", 1}, {MetricId::port_state, "eth0", 4}}), 1);
  CHECK(also_seen(t, "", {}, 2).empty());
  CHECK(also_seen(t, "", {"ifb"}, 2).empty());
  CHECK(also_seen(t, "", {"ifb0"}, 2).size() == 1);
  t = merged(&t, metrics({{MetricId::port_state, "eth0", 1}}), 2);
  CHECK(says(also_seen(t, "", {}, 3), "eth0"));
}

TEST_CASE("A queue is stuck if it has requests in flight and nothing completes") {
  NetQueue q;
  CHECK(stuck_for_ns(q) == 0);
  q.in_flight = 3;
  q.post_age_ms = 5000;
  CHECK(stuck_for_ns(q) == 5 * ns_per_s);  // nothing ever completed
  q.complete_age_ms = 100;
  CHECK(stuck_for_ns(q) == 0);
  q.complete_age_ms = 60'000;
  q.post_age_ms = 10;  // rested, and has just been given something
  CHECK(stuck_for_ns(q) == 0);
  q.post_age_ms = 4000;
  q.device_name = "mlx5_0";
  q.number = 99;
  const auto seen = also_seen({q}, ns_per_s);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].what == "mlx5_0 queue pair 99 has 3 requests in flight and completes none for");
  CHECK(seen[0].value == 5000);
}

TEST_CASE("Names are those of the probe, and newer ids have names too") {
  CHECK(metric_name(MetricId::gpu_xid_last) == "gpu_xid_last");
  CHECK(metric_name(static_cast<MetricId>(4711)) == "metric_4711");
  CHECK(type_of(MetricId::agent_samples) == MetricType::counter);
  CHECK(type_of(MetricId::port_state) == MetricType::gauge);
  CHECK(type_of(static_cast<MetricId>(4711)) == MetricType::gauge);
}

}  // namespace ccld::decision
