#include "decision/report/prometheus.h"

#include <ctime>
#include <fstream>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "decision/report/departed_metrics.h"
#include "decision/report/incident_metrics.h"
#include "decision/report/process_metrics.h"
#include "schemas/abi/names.h"
#include "test/unit/server/full_snapshot.h"

namespace ccld::decision {

using namespace report;
using test::culprit;
using test::full_snapshot;
using test::incident;
using test::process_with;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The value of a series, as it is written; empty: there is none.
std::string value_of(const std::string& text, const std::string& series) {
  const size_t at = text.find("\n" + series + " ");
  if (at == std::string::npos) return "";
  const size_t begin = at + series.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

size_t series_of(const Snapshot& s, const std::string& family) {
  for (const auto& f : metric_families(s))
    if (f.name == family) return f.metric.size();
  return 0;
}

// Table of all families for people: made of what is exported.
std::string table_of(const std::vector<prometheus::MetricFamily>& families) {
  std::string out = "| name | type | labels | what |\n|---|---|---|---|\n";
  for (const auto& f : families) {
    std::vector<std::string> names;
    for (const auto& metric : f.metric) {
      for (const auto& label : metric.label)
        if (std::find(names.begin(), names.end(), label.name) == names.end()) names.push_back(label.name);
    }
    std::string labels;
    for (const std::string& name : names) labels += (labels.empty() ? "" : ", ") + ("`" + name + "`");
    const bool counter = f.type == prometheus::MetricType::Counter;
    out += "| `" + f.name + "` | " + (counter ? "counter" : "gauge") + " | " + labels + " | " + f.help + " |\n";
  }
  return out;
}

}  // namespace

TEST_CASE("Metrics count batches, refusals by reason, communicators and open incidents by class and state") {
  const std::string text = prometheus_text(full_snapshot());
  CHECK(value_of(text, "ccld_batches_total") == "1234");
  CHECK(value_of(text, "ccld_batches_lost_total") == "2");
  CHECK(value_of(text, "ccld_messages_rejected_total{reason=\"structure\"}") == "3");
  CHECK(value_of(text, "ccld_communicators") == "1");
  CHECK(value_of(text, "ccld_ranks") == "2");
  CHECK(value_of(text, "ccld_oldest_operation_age_seconds") == "12");
  CHECK(value_of(text, "ccld_processes_silent") == "1");
  CHECK(value_of(text, "ccld_incidents_open{class=\"H1\",state=\"suspected\"}") == "1");
  CHECK(value_of(text, "ccld_incidents_open{class=\"S2\",state=\"confirmed\"}") == "1");
  CHECK(value_of(text, "ccld_incidents_open{class=\"S3\",state=\"confirmed\"}") == "0");
  CHECK(value_of(text, "ccld_incidents_opened_total") == "3");
}

TEST_CASE("The culprits of an open incident are series that name them") {
  const std::string text = prometheus_text(full_snapshot());
  CHECK(value_of(
            text,
            "ccld_incident_info{incident=\"2\",training_job=\"demo\",class=\"S2\",title=\"link rank 3 -> rank 4 of "
            "tp0 is slow\",state="
            "\"confirmed\",communicator=\"0000000000000abc\",comm_name=\"tp0\",rank=\"3\",job_rank=\"11\",host=\"node-"
            "a\",pid=\"4711\","
            "gpu=\"1\",bus_id=\"0000:10:00.0\",component=\"link\",condition=\"link_slow\",channel=\"2\",peer=\"4\","
            "peer_host=\"node-b\",net=\"mlx5_0\"}") == "1");
  CHECK(value_of(text, "ccld_incident_confidence_ratio{incident=\"2\",training_job=\"demo\"}") == "0.75");
  CHECK(std::stod(value_of(text, "ccld_incident_gain_ratio{incident=\"2\",training_job=\"demo\"}")) == Approx(0.2));
  CHECK(value_of(text, "ccld_incident_onset_timestamp_seconds{incident=\"2\",training_job=\"demo\"}") == "1000090");
  CHECK(value_of(text, "ccld_incident_victims{incident=\"2\",training_job=\"demo\"}") == "7");
  // Nobody is singled out, and a hang has no gain.
  CHECK(contains(text, "ccld_incident_info{incident=\"3\""));
  CHECK_FALSE(contains(text, "ccld_incident_gain_ratio{incident=\"3\""));
  // A closed one is gone.
  CHECK_FALSE(contains(text, "{incident=\"1\""));
}

TEST_CASE("Of many incidents and culprits a bounded number has series, confirmed ones first, and the rest is counted") {
  Snapshot s = full_snapshot();
  s.incidents.clear();
  for (uint64_t id = 1; id <= incidents_shown_max + 5; ++id) {
    s.incidents.push_back(incident(id, FaultClass::h3_hardware,
                                   id == incidents_shown_max + 5 ? VerdictState::confirmed : VerdictState::suspected));
    for (int32_t rank = 0; rank < static_cast<int32_t>(culprits_shown_max) + 1; ++rank)
      s.incidents.back().culprits.push_back(culprit(rank));
  }
  const std::string text = prometheus_text(s);
  CHECK(value_of(text, "ccld_incidents_open_not_shown") == "5");
  CHECK(series_of(s, "ccld_incident_info") == incidents_shown_max * culprits_shown_max);
  CHECK(std::stoul(value_of(text, "ccld_incident_culprits_not_shown")) ==
        (incidents_shown_max + 5) * (culprits_shown_max + 1) - incidents_shown_max * culprits_shown_max);
  CHECK(contains(text, "ccld_incident_info{incident=\"" + std::to_string(incidents_shown_max + 5) + "\""));
}

TEST_CASE("Values of probes are exported in base units with their process and device") {
  Snapshot s = full_snapshot();
  s.status.processes = {process_with({{abi::MetricId::agent_cpu_ns, "", 1'500'000'000},
                                      {abi::MetricId::agent_period_us, "", 500},
                                      {abi::MetricId::gpu_xid_last, "", 1},  // with and without a device
                                      {abi::MetricId::gpu_xid_last, "0000:10:00.0", 79},
                                      {abi::MetricId::gpu_sm_clock_mhz, "0000:10:00.0", 1980},
                                      {abi::MetricId::port_rate_mbps, "mlx5_0:1", 400'000}})};
  const std::string text = prometheus_text(s), process = "{training_job=\"demo\",host=\"node-a\",pid=\"4711\"";
  CHECK(value_of(text, "ccld_probe_cpu_seconds_total" + process + "}") == "1.5");
  CHECK(std::stod(value_of(text, "ccld_probe_sample_period_seconds" + process + "}")) == Approx(0.0005));
  CHECK(value_of(text, "ccld_probe_gpu_last_xid" + process + "}") == "1");
  CHECK(value_of(text, "ccld_probe_gpu_last_xid" + process + ",device=\"0000:10:00.0\"}") == "79");
  CHECK(value_of(text, "ccld_probe_gpu_sm_clock_hertz" + process + ",device=\"0000:10:00.0\"}") == "1980000000");
  CHECK(value_of(text, "ccld_probe_port_rate_bytes_per_second" + process + ",device=\"mlx5_0:1\"}") == "50000000000");
  CHECK(contains(text, "# TYPE ccld_probe_gpu_last_xid gauge\n"));
  CHECK(contains(text, "# TYPE ccld_probe_cpu_seconds_total counter\n"));
}

TEST_CASE("The processes with the most trouble are shown, and a healthy job shows the same ones every time") {
  Snapshot s = full_snapshot();
  s.incidents[1].culprits = {culprit(3, "node-9", 9)};
  s.status.processes.clear();
  for (uint32_t i = 0; i < 100; ++i) {
    s.status.processes.push_back(
        process_with({{abi::MetricId::agent_dropped_rounds, "", i == 50 ? 5 : 0}}, "node-" + std::to_string(i / 8), i));
    s.status.processes.back().telemetry_age_ns = (i * 7919) % 1000 * ns_per_ms;  // none is silent
  }
  s.status.processes[60].telemetry_age_ns = 6 * ns_per_s;
  s.status.processes[70].lost_batches = 6;
  s.status.processes.push_back(process_with({}, "node-9", 9));
  const auto pids = [](const Snapshot& of) {
    std::vector<uint32_t> out;
    for (const ProcessStatus* p : most_troubled(of)) out.push_back(p->process.pid);
    return out;
  };
  const auto before = pids(s);
  REQUIRE(before.size() == processes_shown_max);
  CHECK(std::vector(before.begin(), before.begin() + 4) == std::vector<uint32_t>{9, 60, 70, 50});
  for (uint32_t i = 0; i < 50; ++i) s.status.processes[i].telemetry_age_ns = (i * 6101) % 1000 * ns_per_ms;
  CHECK(pids(s) == before);
}

TEST_CASE("Sums are over all processes, shown or not, and what is shown and not shown adds up") {
  Snapshot s = full_snapshot();
  s.status.processes.clear();
  for (uint32_t i = 0; i < 100; ++i)
    s.status.processes.push_back(process_with({{abi::MetricId::agent_sent_bytes, "", 10},
                                               {abi::MetricId::process_proxy_run_ns, "", 10},
                                               {abi::MetricId::port_sent_bytes, "mlx5_0:1", 10}},
                                              "node", i));
  const std::string text = prometheus_text(s);
  CHECK(value_of(text, "ccld_probes_sent_bytes_total") == "1000");
  // Every process of a host reports the same ports; a sum of means means nothing.
  CHECK_FALSE(contains(text, "ccld_probes_port"));
  CHECK_FALSE(contains(text, "ccld_probes_process_proxy_run"));
  CHECK(value_of(text, "ccld_processes{shown=\"yes\"}") == "20");
  CHECK(value_of(text, "ccld_processes{shown=\"no\"}") == "80");
  CHECK(value_of(text, "ccld_probe_values{shown=\"yes\"}") == "60");
  CHECK(value_of(text, "ccld_probe_values{shown=\"no\"}") == "240");
}

TEST_CASE("A process that is forgotten stays in the sums") {
  Snapshot before = full_snapshot();
  before.status.processes = {
      process_with({{abi::MetricId::agent_sent_bytes, "", 10}}, "a"),
      process_with({{abi::MetricId::agent_sent_bytes, "", 20}, {abi::MetricId::agent_waiting_batches, "", 3}}, "b"),
      process_with({{abi::MetricId::agent_sent_bytes, "", 40}}, "c")};
  Snapshot now = before;
  now.status.processes.erase(now.status.processes.begin() + 1);
  now.departed_metrics = departed_metrics(before, now.status);
  CHECK(value_of(prometheus_text(now), "ccld_probes_sent_bytes_total") == "70");
  CHECK_FALSE(contains(prometheus_text(now), "ccld_probes_waiting_batches"));  // a gauge: it is not there any more
  Snapshot later = now;
  later.status.processes.clear();
  later.departed_metrics = departed_metrics(now, later.status);
  CHECK(value_of(prometheus_text(later), "ccld_probes_sent_bytes_total") == "70");
}

TEST_CASE("Labels that senders chose are escaped, cut and made valid UTF-8, and no series is there twice") {
  Snapshot s = full_snapshot();
  s.status.processes = {process_with({}), process_with({}), process_with({}), process_with({})};
  s.status.processes[0].job = "a\"b\\c\nd";
  s.status.processes[1].job = std::string(1000, 'x');
  s.status.processes[2].job = std::string(999, 'x');
  s.status.processes[3].job = "caf\xc3\xa9 \xff";
  const std::string text = prometheus_text(s);
  CHECK(contains(text, "training_job=\"a\\\"b\\\\c\\nd\""));
  CHECK(contains(text, "training_job=\"" + std::string(label_bytes_max, 'x') + "\""));
  CHECK(contains(text, "training_job=\"caf\xc3\xa9 \xef\xbf\xbd\""));
  CHECK(std::stoi(value_of(text, "ccld_series_repeated")) > 0);
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] != '#') CHECK(seen.insert(line.substr(0, line.rfind(' '))).second);
  }
  // Cutting leaves whole characters.
  CHECK(label_value(std::string(label_bytes_max - 1, 'x') + "\xc3\xa9").size() <= label_bytes_max);
}

TEST_CASE("Every metric of the ABI is exported, but those of the process file alone and when others were read") {
  const std::set<abi::MetricId> not_exported = {abi::MetricId::agent_service_state, abi::MetricId::agent_service_monotonic_ns, abi::MetricId::agent_service_keys,
                                                abi::MetricId::process_run_read_monotonic_ns};
  for (unsigned id = 1; id < 1000; ++id) {
    const auto metric = static_cast<abi::MetricId>(id);
    const bool known = std::string(abi::name_of(metric)) != "?";
    INFO(metric_name(metric));
    CHECK((probe_metric(metric) != nullptr) == (known && !not_exported.contains(metric)));
  }
}

TEST_CASE("metrics.md is the table of what is exported") {
  std::ifstream file(CCLD_METRICS_MD);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  const std::string table = table_of(metric_families(full_snapshot()));
  INFO("expected table:\n" << table);
  CHECK(contains(text.str(), table));
}

TEST_CASE("Ten thousand processes with everything that machines report make a small answer in a short time") {
  constexpr uint32_t processes = 10'240;
  constexpr size_t bytes_max = size_t{2} << 20;
  constexpr double cpu_ms_max = 100;
  std::vector<Metric> metrics;
  for (const ProbeMetric& m : probe_metrics()) {
    const int devices = is_of_process(m.id) ? 1 : m.id >= abi::MetricId::port_state ? 8 : 1;
    for (int d = 0; d < devices; ++d)
      metrics.push_back({m.id, devices > 1 ? "mlx5_" + std::to_string(d) + ":1" : "", 123'456'789'012});
  }
  Snapshot s = full_snapshot();
  s.status.processes.clear();
  for (uint32_t i = 0; i < processes; ++i)
    s.status.processes.push_back(
        process_with(metrics, "node-" + std::to_string(i / 8) + ".cluster.example.org", 1'000'000 + i));
  const auto cpu_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
  };
  const double begun_ms = cpu_ms();
  const std::string text = prometheus_text(s);
  const double took_ms = cpu_ms() - begun_ms;
  WARN(metrics.size() << " values of each of " << processes << " processes: " << text.size() << " bytes, " << took_ms
                      << " ms");
  CHECK(text.size() < bytes_max);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(took_ms < cpu_ms_max);
#endif
  // As large as it can get: as many values, and labels as long, as are let through.
  metrics.clear();
  for (size_t i = 0; i < metrics_kept_max; ++i)
    metrics.push_back(
        {abi::MetricId::port_congestion_notifications, std::to_string(i) + std::string(100, '\\'), INT64_MAX});
  s.status.processes.clear();
  for (uint32_t i = 0; i < 2 * processes_shown_max; ++i) {
    s.status.processes.push_back(process_with(metrics, std::string(100, '\\'), i));
    s.status.processes.back().job = std::string(100, '\\');
  }
  CHECK(prometheus_text(s).size() < bytes_max);
}

}  // namespace ccld::decision
