#include "decision/report/process_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "decision/report/probe_metrics.h"

namespace ccld::decision::report {
namespace {

struct ProcessTrouble {
  const ProcessStatus* process;
  bool culprit = false, silent = false;
  uint64_t lost = 0;

  // The most troubled one first.
  auto key() const {
    return std::tuple(!culprit, !silent, UINT64_MAX - lost, std::string_view(process->process.host),
                      process->process.pid, process->telemetry_age_ns);
  }
};

// Values are what senders say: as double, sums cannot overflow.
struct Sum {
  double value = 0;
  bool known = false;
};
// By id; ids of processes are few.
using Sums = std::array<Sum, static_cast<size_t>(abi::MetricId::cgroup_throttled_periods)>;

uint64_t lost_of(const ProcessStatus& p) {
  uint64_t lost = p.lost_batches;
  if (!p.metrics) return lost;
  for (const MetricValue& v : *p.metrics) {
    if (!is_of_process(v.id)) break;
    if (is_loss(v.id) && v.value > 0) lost += static_cast<uint64_t>(v.value);
  }
  return lost;
}

MetricLabels labels_of(const ProcessStatus& p) {
  return {{"training_job", p.job}, {"host", p.process.host}, {"pid", absl::StrCat(p.process.pid)}};
}

Sums sums_of(const Snapshot& s) {
  Sums sums;
  const auto add = [&sums](abi::MetricId id, int64_t value) {
    Sum& sum = sums[static_cast<size_t>(id)];
    sum.value += static_cast<double>(value);
    sum.known = true;
  };
  for (const ProcessStatus& p : s.status.processes) {
    if (!p.metrics) continue;
    for (const MetricValue& v : *p.metrics) {
      if (!is_of_process(v.id)) break;
      add(v.id, v.value);
    }
  }
  for (const auto& [id, value] : s.departed_metrics)
    if (is_of_process(id)) add(id, value);
  return sums;
}

std::string full_name(const char* prefix, const ProbeMetric& m) {
  return absl::StrCat(prefix, m.name, kind_of(m.id) == MetricKind::counter ? "_total" : "");
}

void add_sums(const Snapshot& s, MetricFamilies& out) {
  const Sums sums = sums_of(s);
  for (const ProbeMetric& m : probe_metrics()) {
    if (!is_summed(m.id) || !sums[static_cast<size_t>(m.id)].known) continue;
    out.single(full_name("ccld_probes_", m), kind_of(m.id), absl::StrCat("All processes together: ", m.help),
               sums[static_cast<size_t>(m.id)].value * m.scale);
  }
}

// Families must stand together, so values are collected over the processes first.
void add_values(const std::vector<const ProcessStatus*>& shown, size_t values, MetricFamilies& out) {
  struct Sample {
    const ProcessStatus* process;
    MetricValue value;
  };
  std::map<abi::MetricId, std::vector<Sample>> families;
  size_t values_shown = 0;
  for (const ProcessStatus* p : shown) {
    if (!p->metrics) continue;
    size_t of_process = 0;
    for (const MetricValue& v : *p->metrics) {
      if (!probe_metric(v.id)) continue;
      if (of_process++ == process_values_max) break;
      families[v.id].push_back({p, v});
      ++values_shown;
    }
  }
  out.begin("ccld_probe_values", MetricKind::gauge,
            "Values that probes report, by whether they are series (ccld_probe_...) of a process that is shown.");
  out.add(static_cast<double>(values_shown), {{"shown", "yes"}});
  out.add(static_cast<double>(values - values_shown), {{"shown", "no"}});
  for (const auto& [id, samples] : families) {
    const ProbeMetric& m = *probe_metric(id);
    out.begin(full_name("ccld_probe_", m), kind_of(id), m.help);
    for (const Sample& sample : samples) {
      MetricLabels labels = labels_of(*sample.process);
      labels.push_back({"device", sample.value.instance});
      out.add(static_cast<double>(sample.value.value) * m.scale, std::move(labels));
    }
  }
}

}  // namespace

std::vector<const ProcessStatus*> most_troubled(const Snapshot& s) {
  absl::flat_hash_set<std::pair<std::string_view, uint32_t>> culprits;
  for (const Incident& incident : s.incidents) {
    if (!is_open(incident.state)) continue;
    for (const Culprit& c : incident.culprits) culprits.insert({c.host, c.pid});
  }
  std::vector<ProcessTrouble> troubles;
  troubles.reserve(s.status.processes.size());
  for (const ProcessStatus& p : s.status.processes) {
    troubles.push_back({&p, culprits.contains(std::pair(std::string_view(p.process.host), p.process.pid)),
                        p.presence(s.silent_ns) == Presence::silent, lost_of(p)});
  }
  const auto worse = [](const ProcessTrouble& a, const ProcessTrouble& b) { return a.key() < b.key(); };
  std::vector<const ProcessStatus*> shown;
  absl::flat_hash_set<std::tuple<std::string_view, std::string_view, uint32_t>> seen;
  // As a heap the worst comes first, and only those needed are put in order.
  const auto better = [&worse](const ProcessTrouble& a, const ProcessTrouble& b) { return worse(b, a); };
  std::make_heap(troubles.begin(), troubles.end(), better);
  while (shown.size() < processes_shown_max && !troubles.empty()) {
    std::pop_heap(troubles.begin(), troubles.end(), better);
    const ProcessStatus* p = troubles.back().process;
    troubles.pop_back();
    if (seen.insert({p->job, p->process.host, p->process.pid}).second) shown.push_back(p);
  }
  return shown;
}

void add_process_metrics(const Snapshot& s, MetricFamilies& out) {
  const std::vector<const ProcessStatus*> shown = most_troubled(s);
  size_t silent = 0, ended = 0, stopped = 0, values = 0;
  for (const ProcessStatus& p : s.status.processes) {
    const Presence presence = p.presence(s.silent_ns);
    silent += presence == Presence::silent ? 1 : 0;
    ended += presence == Presence::ended ? 1 : 0;
    stopped += p.probe_stopped ? 1 : 0;
    values += p.metrics ? p.metrics->size() : 0;
  }
  out.begin("ccld_processes", MetricKind::gauge,
            "Processes known, by whether they have series of their own (the ones with the most trouble have).");
  out.add(static_cast<double>(shown.size()), {{"shown", "yes"}});
  out.add(static_cast<double>(s.status.processes.size() - shown.size()), {{"shown", "no"}});
  out.single("ccld_processes_silent", MetricKind::gauge,
             "Processes whose telemetry stopped while they had communicators.", static_cast<double>(silent));
  out.single("ccld_processes_ended", MetricKind::gauge,
             "Processes whose telemetry stopped after they had ended all their communicators.",
             static_cast<double>(ended));
  out.single("ccld_probes_stopped", MetricKind::gauge, "Probes that an operator has stopped.",
             static_cast<double>(stopped));
  add_sums(s, out);

  out.begin("ccld_probe_telemetry_age_seconds", MetricKind::gauge, "Time since the newest batch of the process.");
  for (const ProcessStatus* p : shown) out.add(seconds(p->telemetry_age_ns), labels_of(*p));
  out.begin("ccld_probe_received_batches_total", MetricKind::counter, "Batches of the process that arrived.");
  for (const ProcessStatus* p : shown) out.add(static_cast<double>(p->batches), labels_of(*p));
  // Batches that arrive late are counted as lost before: the number may fall.
  out.begin("ccld_probe_missing_batches", MetricKind::gauge, "Batches of the process that did not arrive.");
  for (const ProcessStatus* p : shown) out.add(static_cast<double>(p->lost_batches), labels_of(*p));
  add_values(shown, values, out);
}

}  // namespace ccld::decision::report
