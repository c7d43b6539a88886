// Series for Prometheus, family by family, in prometheus-cpp's model, and their text form.
//
//   MetricFamilies families;
//   families.begin("ccld_ticks_total", MetricKind::counter, "Analysis ticks.");
//   families.add(17);
//
// Contract: values are in base units (seconds, bytes, ratios). Label values are cut to label_bytes_max bytes (`title`
// to title_bytes_max), and what is not UTF-8 is replaced: Prometheus would refuse the whole answer. Empty labels are
// left out, as Prometheus treats them alike. A series that equals one of its family is not exported but counted.
// Threads: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "decision/model/types.h"
#include "prometheus/metric_family.h"

namespace ccld::decision::report {

// Host names have at most 64 bytes, jobs 63 (NCCL_PROBE_JOB): longer ones come from other senders.
constexpr size_t label_bytes_max = 64;
// A sentence with a host and a communicator in it.
constexpr size_t title_bytes_max = 200;

enum class MetricKind { counter, gauge };

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

class MetricFamilies {
 public:
  // Of all series that are added until the next begin(). A family without series is not exported.
  void begin(std::string name, MetricKind, std::string help);
  void add(double value, MetricLabels = {});
  void single(std::string name, MetricKind kind, std::string help, double value) {
    begin(std::move(name), kind, std::move(help));
    add(value);
  }
  uint64_t repeated() const { return repeated_; }
  std::vector<prometheus::MetricFamily> take() &&;

 private:
  std::vector<prometheus::MetricFamily> families_;
  absl::flat_hash_set<std::string> series_;  // of the newest family
  uint64_t repeated_ = 0;
};

inline double seconds(Nanoseconds ns) { return static_cast<double>(ns) / ns_per_s; }

// What a label says instead of `text`.
std::string label_value(std::string_view text, size_t bytes_max = label_bytes_max);

}  // namespace ccld::decision::report
