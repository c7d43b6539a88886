// The newest values of what a process reports about itself, its host, GPUs and network ports.
//
// Contract: values are made once and never changed, so that a snapshot may share them. Bounded by metrics_kept_max
// values; what a process has not repeated for stale_ns is forgotten. Not thread-safe to make, safe to read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decision/model/events.h"

namespace ccld::decision {

constexpr size_t metrics_kept_max = 1024;

enum class MetricType { counter, gauge };
MetricType type_of(abi::MetricId);
// "gpu_xid_last"; "metric_4711" for ids of newer probes. In letters, digits and underscores.
std::string metric_name(abi::MetricId);

struct MetricValue {
  abi::MetricId id = abi::MetricId::none;
  std::string instance;
  int64_t value = 0;
  int64_t first = 0;  // when it was first heard
  Nanoseconds heard_ns = 0;
  Nanoseconds increased_ns = 0;  // when it was last seen to have grown; 0: never
};

// In order of id and instance. A machine with eight network ports has 150 values, which every process on it reports: they
// are kept as a string of small numbers, a dozen bytes each, and read from begin to end.
class MetricTable {
 public:
  // `newest_ns`: no value was heard later.
  explicit MetricTable(Nanoseconds newest_ns = 0) : newest_ns_(newest_ns) {}
  // In order; beyond metrics_kept_max it is left out.
  void append(const MetricValue&);
  // Instances of the last table of the same process: they hardly ever change.
  void finish(const MetricTable* last);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  MetricValue operator[](size_t) const;  // O(i)

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = MetricValue;
    using difference_type = std::ptrdiff_t;
    using pointer = const MetricValue*;
    using reference = const MetricValue&;
    Iterator(const MetricTable* table, size_t i);
    const MetricValue& operator*() const { return value_; }
    const MetricValue* operator->() const { return &value_; }
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.i_ == b.i_; }

   private:
    void read();
    const MetricTable* table_;
    size_t i_, at_ = 0;
    MetricValue value_;
    std::vector<std::string_view> instances_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  Nanoseconds newest_ns_;
  uint32_t size_ = 0, last_id_ = 0;
  std::string bytes_;
  std::shared_ptr<const std::string> instances_;  // one a line
  std::vector<std::string> new_instances_;        // until finish()
};

MetricTable merged(const MetricTable* known, const Metrics& news, Nanoseconds now_ns);

// Values that a person who looks at an incident would want to know: XIDs, ports that are not up, a control group that
// is being throttled or short of memory, stopped threads, GPUs that slow down their clocks, queues of the network with
// requests in flight on which nothing completes. Pure.
struct AlsoSeen {
  std::string what;
  double value = 0;
  std::string unit;
  Nanoseconds at_ns = 0;  // when it happened for the last time, to a second; 0: not known
};
// `gpu_bus_id`: only this GPU's values, empty: those of all. `net_names`: devices of its connections; a port of any
// other counts only if it was up before, because machines have ports that nobody uses.
std::vector<AlsoSeen> also_seen(const MetricTable& metrics, const std::string& gpu_bus_id,
                                const std::vector<std::string>& net_names, Nanoseconds now_ns);
// Whether the machine says how its GPUs are (XIDs, clocks, ECC): it does not without NVML.
bool tells_of_gpus(const MetricTable& metrics);
// `report_age_ns`: since the queues were reported.
std::vector<AlsoSeen> also_seen(const std::vector<NetQueue>& queues, Nanoseconds report_age_ns);

// The requests in flight of a queue on which nothing has completed for so long are stuck; 0: not stuck.
constexpr Nanoseconds queue_stuck_ns = 2 * ns_per_s;
Nanoseconds stuck_for_ns(const NetQueue&);

}  // namespace ccld::decision
