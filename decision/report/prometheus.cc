#include "decision/report/prometheus.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ccld::decision::report {
namespace {

constexpr FaultClass fault_classes[] = {FaultClass::h1_not_entered,        FaultClass::h2_inconsistent,
                                        FaultClass::h3_hardware,           FaultClass::s1_computation_slow,
                                        FaultClass::s2_communication_slow, FaultClass::s3_mixed_slow};
constexpr VerdictState verdict_states[] = {VerdictState::suspected, VerdictState::confirmed, VerdictState::resolved};

class Text {
 public:
  void family(const char* metric, const char* type, const char* help) {
    absl::StrAppend(&out_, "# HELP ", metric, " ", help, "\n# TYPE ", metric, " ", type, "\n");
  }
  template <class Value>
  void sample(const std::string& metric_and_labels, Value value) {
    absl::StrAppend(&out_, metric_and_labels, " ", value, "\n");
  }
  template <class Value>
  void single(const char* metric, const char* type, const char* help, Value value) {
    family(metric, type, help);
    sample(metric, value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Text within the quotes of a label.
std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// Families must stand together, so they are collected over all processes first.
void probe_metrics(const Snapshot& s, Text& text) {
  struct Sample {
    const ProcessStatus* process;
    MetricValue value;
  };
  std::map<abi::MetricId, std::vector<Sample>> families;
  size_t series = 0, left_out = 0;
  for (const ProcessStatus& p : s.status.processes) {
    if (!p.metrics) continue;
    if (series + p.metrics->size() > probe_series_max) {
      ++left_out;
      continue;
    }
    series += p.metrics->size();
    for (const MetricValue& v : *p.metrics) families[v.id].push_back({&p, v});
  }
  text.single("ccld_probe_processes_left_out", "gauge", "Processes whose metrics found no room here.", left_out);
  for (const auto& [id, samples] : families) {
    const std::string name = absl::StrCat("ccld_probe_", metric_name(id));
    const bool counter = type_of(id) == MetricType::counter;
    const std::string family = absl::StrCat(name, counter ? "_total" : "");
    text.family(family.c_str(), counter ? "counter" : "gauge", "As the probe of the process reports it.");
    for (const Sample& sample : samples) {
      text.sample(absl::StrCat(family, "{host=\"", label(sample.process->process.host), "\",pid=\"",
                               sample.process->process.pid, "\",job=\"", label(sample.process->job), "\",instance=\"",
                               label(sample.value.instance), "\"}"),
                  sample.value.value);
    }
  }
}

double seconds(Nanoseconds ns) { return static_cast<double>(ns) / ns_per_s; }

}  // namespace

std::string prometheus_text(const Snapshot& s) {
  Text text;
  text.single("ccld_batches_total", "counter", "Telemetry batches accepted.", s.ingest.batches);
  text.single("ccld_batch_bytes_total", "counter", "Bytes of accepted batches.", s.ingest.bytes);
  text.single("ccld_batches_lost_total", "counter", "Gaps in the batch numbers of processes.", s.ingest.lost_batches);
  text.single("ccld_batches_late_total", "counter",
              "Batches that arrived after a later one; most were counted as lost.", s.ingest.late_batches);
  text.single("ccld_batches_repeated_total", "counter", "Batches that had arrived before and were dropped.",
              s.ingest.repeated_batches);
  text.family("ccld_messages_rejected_total", "counter", "Messages that were not acceptable batches.");
  for (int r = 0; r < ingest::reject_reason_count; ++r) {
    text.sample(absl::StrCat("ccld_messages_rejected_total{reason=\"",
                             ingest::name(static_cast<ingest::RejectReason>(r)), "\"}"),
                s.ingest.rejected[static_cast<size_t>(r)]);
  }
  text.single("ccld_ingest_lag_seconds", "gauge",
              "Age of the newest batch when it was read; includes clock differences.", seconds(s.ingest.lag_ns));

  uint64_t ranks = 0, in_flight = 0, silent = 0;
  for (const CommStatus& comm : s.status.communicators) {
    ranks += static_cast<uint64_t>(comm.ranks_seen);
    if (comm.in_flight) ++in_flight;
  }
  for (const ProcessStatus& process : s.status.processes) {
    if (process.telemetry_age_ns >= s.silent_ns) ++silent;
  }
  text.single("ccld_communicators", "gauge", "Communicators known.", s.status.communicators.size());
  text.single("ccld_communicators_in_flight", "gauge", "Communicators with an operation in flight.", in_flight);
  text.single("ccld_ranks", "gauge", "Ranks known, over all communicators.", ranks);
  text.single("ccld_processes", "gauge", "Processes known.", s.status.processes.size());
  text.single("ccld_processes_silent", "gauge", "Processes whose telemetry stopped.", silent);

  std::map<std::pair<FaultClass, VerdictState>, uint64_t> incidents;
  for (const Incident& incident : s.incidents) ++incidents[{incident.fault, incident.state}];
  text.family("ccld_incidents", "gauge", "Incidents remembered, by class and state.");
  for (const FaultClass fault : fault_classes) {
    for (const VerdictState state : verdict_states) {
      text.sample(absl::StrCat("ccld_incidents{class=\"", name(fault), "\",state=\"", name(state), "\"}"),
                  incidents[{fault, state}]);
    }
  }
  text.single("ccld_ranks_refused_total", "counter", "Messages of ranks for which there was no room (memberships_max).",
              s.status.ranks_refused);
  text.single("ccld_communicators_contradicted_total", "counter",
              "Communicators begun anew, for their ranks disagreed about how many there are.", s.status.contradictions);
  uint64_t p2p_in_flight = 0, replays = 0, stopped = 0, stuck = 0;
  for (const CommStatus& comm : s.status.communicators) {
    p2p_in_flight += comm.p2p_in_flight;
    replays += comm.replays;
  }
  for (const ProcessStatus& process : s.status.processes) {
    if (process.probe_stopped) ++stopped;
    for (const NetQueue& q : process.net_queues) stuck += stuck_for_ns(q) > 0 ? 1 : 0;
  }
  text.single("ccld_p2p_in_flight", "gauge", "Send and Recv calls in flight.", p2p_in_flight);
  text.single("ccld_replays_complete", "gauge",
              "Replays of operations in graphs that all ranks have reported, of the communicators known.", replays);
  text.single("ccld_communicators_initializing", "gauge", "Communicator initializations that last or have failed.",
              s.status.inits.size());
  text.single("ccld_probes_stopped", "gauge", "Probes that an operator has stopped.", stopped);
  text.single("ccld_net_queues_stuck", "gauge", "Queues of network devices with requests in flight that complete none.",
              stuck);
  probe_metrics(s, text);
  text.single("ccld_ticks_total", "counter", "Analysis ticks.", s.ticks);
  text.single("ccld_ticks_late_total", "counter", "Analysis ticks that came more than one period late.", s.late_ticks);
  text.single("ccld_tick_seconds", "gauge", "Duration of the newest analysis tick.", seconds(s.tick_duration_ns));
  text.single("ccld_verdict_lines_total", "counter", "Verdict lines written.", s.verdict_lines);
  text.single("ccld_verdict_write_errors_total", "counter", "Verdict lines that could not be written.",
              s.verdict_write_errors);
  if (s.recording.has_value()) {
    const RecorderCounters& r = *s.recording;
    text.single("ccld_recording_open", "gauge", "1 while the recording of everything is being written.",
                r.file_open ? 1 : 0);
    text.single("ccld_recording_entries_total", "counter", "Messages and ticks recorded.", r.entries);
    text.single("ccld_recording_missing_total", "counter", "Messages and ticks for which the recorder had no room.",
                r.missing);
    text.single("ccld_recording_file_bytes_total", "counter", "Bytes written to the recording of everything.",
                r.file_bytes);
    text.single("ccld_recording_write_errors_total", "counter", "Recordings that could not be written.",
                r.write_errors);
    text.single("ccld_recording_history_bytes", "gauge", "Telemetry kept for recordings of incidents, compressed.",
                r.history_bytes);
    text.single("ccld_recording_incidents_total", "counter", "Recordings of incidents written.", r.incident_files);
    text.single("ccld_recording_cpu_seconds_total", "counter", "Processor time of the recorder's thread.", r.cpu_s);
  }
  text.single("ccld_uptime_seconds", "gauge", "Time since the service started.", seconds(s.now_ns - s.started_ns));
  return text.take();
}

}  // namespace ccld::decision::report
