#include "decision/model/metric_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/model/small_numbers.h"
#include "schemas/abi/names.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds stale_ns = 60 * ns_per_s;
// A counter that grew within this time is still growing for whoever looks: it is reported once a second.
constexpr Nanoseconds growing_ns = 30 * ns_per_s;

// NVML's reasons that mean the GPU is slower than it could be: power cap, slowdown by hardware, temperature, brake,
// sync. Idle, application clocks and display settings are choices.
constexpr int64_t throttle_idle = 0x1, throttle_application_clocks = 0x2, throttle_display = 0x100;

constexpr int64_t port_up = 4;

struct Growing {
  abi::MetricId id;
  const char* what;
  const char* unit;
  double scale;
};
constexpr Growing growing[] = {
    {abi::MetricId::cgroup_throttled_us, "its control group is being throttled, in all", "ms", 1e-3},
    {abi::MetricId::cgroup_oom_kills, "processes of its control group killed for lack of memory", "kills", 1},
    {abi::MetricId::cgroup_memory_high_events, "times its control group went over its soft limit of memory", "times",
     1},
    {abi::MetricId::pressure_memory_full_us, "all tasks stalled for lack of memory, in all", "ms", 1e-3},
    {abi::MetricId::gpu_ecc_uncorrected, "uncorrected memory errors of the GPU", "errors", 1},
    {abi::MetricId::port_link_downed, "times its network link went down", "times", 1},
    {abi::MetricId::port_symbol_errors, "symbol errors of its network port", "errors", 1},
    {abi::MetricId::port_retransmit_timeouts, "retransmissions of its network port after a timeout", "times", 1},
};

}  // namespace

MetricType type_of(abi::MetricId id) {
  switch (id) {
    case abi::MetricId::agent_period_us:
    case abi::MetricId::agent_waiting_batches:
    case abi::MetricId::agent_unconfirmed_batches:
    case abi::MetricId::agent_service_state:
    case abi::MetricId::agent_service_keys:
    case abi::MetricId::health_sources:
    case abi::MetricId::process_threads_running:
    case abi::MetricId::process_threads_sleeping:
    case abi::MetricId::process_threads_disk_wait:
    case abi::MetricId::process_threads_stopped:
    case abi::MetricId::process_threads_zombie:
    case abi::MetricId::process_main_thread_state:
    case abi::MetricId::process_resident_bytes:
    case abi::MetricId::process_proxy_threads:
    case abi::MetricId::cgroup_memory_bytes:
    case abi::MetricId::cgroup_memory_limit_bytes:
    case abi::MetricId::host_load_per_mille:
    case abi::MetricId::host_memory_available_bytes:
    case abi::MetricId::host_runnable_tasks:
    case abi::MetricId::host_processors:
    case abi::MetricId::gpu_sm_clock_mhz:
    case abi::MetricId::gpu_sm_clock_max_mhz:
    case abi::MetricId::gpu_memory_clock_mhz:
    case abi::MetricId::gpu_throttle_reasons:
    case abi::MetricId::gpu_temperature_c:
    case abi::MetricId::gpu_power_mw:
    case abi::MetricId::gpu_utilization_percent:
    case abi::MetricId::gpu_xid_last:
    case abi::MetricId::port_state:
    case abi::MetricId::port_rate_mbps: return MetricType::gauge;
    default: break;
  }
  // Of a newer probe: nothing is claimed about it.
  return std::string(abi::name_of(id)) == "?" ? MetricType::gauge : MetricType::counter;
}

std::string metric_name(abi::MetricId id) {
  const std::string known = abi::name_of(id);
  return known == "?" ? absl::StrCat("metric_", static_cast<unsigned>(id)) : known;
}

// ---- the table -------------------------------------------------------------------------------------------------------

void MetricTable::append(const MetricValue& v) {
  if (size_ == metrics_kept_max || v.instance.find('\n') != std::string::npos) return;
  const auto known = std::find(new_instances_.begin(), new_instances_.end(), v.instance);
  const auto instance = static_cast<uint64_t>(known - new_instances_.begin());
  if (known == new_instances_.end()) new_instances_.push_back(v.instance);
  const auto id = static_cast<uint32_t>(v.id);
  write_number(bytes_, id - last_id_);
  const bool fresh = v.heard_ns == newest_ns_;  // as nearly all are
  write_number(bytes_, instance << 1 | (fresh ? 0 : 1));
  write_number(bytes_, folded(v.value));
  write_number(bytes_, folded(static_cast<int64_t>(static_cast<uint64_t>(v.value) - static_cast<uint64_t>(v.first))));
  if (!fresh) write_number(bytes_, static_cast<uint64_t>(newest_ns_ - v.heard_ns));
  write_number(bytes_, v.increased_ns == 0 ? 0 : 1 + static_cast<uint64_t>(newest_ns_ - v.increased_ns));
  last_id_ = id;
  ++size_;
}

void MetricTable::finish(const MetricTable* last) {
  bytes_.shrink_to_fit();
  std::string lines;
  for (const std::string& instance : new_instances_) lines.append(instance).push_back('\n');
  lines.shrink_to_fit();
  if (last && last->instances_ && *last->instances_ == lines)
    instances_ = last->instances_;
  else
    instances_ = std::make_shared<const std::string>(std::move(lines));
  std::vector<std::string>().swap(new_instances_);
}

MetricTable::Iterator::Iterator(const MetricTable* table, size_t i) : table_(table), i_(i) {
  if (i_ >= table_->size_) return;
  const std::string_view lines = *table_->instances_;
  for (size_t from = 0; from < lines.size();) {
    const size_t line_end = lines.find('\n', from);
    instances_.push_back(lines.substr(from, line_end - from));
    from = line_end + 1;
  }
  read();
}

MetricTable::Iterator& MetricTable::Iterator::operator++() {
  if (++i_ < table_->size_) read();
  return *this;
}

void MetricTable::Iterator::read() {
  const std::string& in = table_->bytes_;
  value_.id = static_cast<abi::MetricId>(static_cast<uint64_t>(value_.id) + read_number(in, at_));
  const uint64_t instance = read_number(in, at_);
  const bool fresh = (instance & 1) == 0;
  value_.instance = instances_[instance >> 1];
  value_.value = unfolded(read_number(in, at_));
  const auto growth = static_cast<uint64_t>(unfolded(read_number(in, at_)));
  value_.first = static_cast<int64_t>(static_cast<uint64_t>(value_.value) - growth);
  value_.heard_ns = fresh ? table_->newest_ns_ : table_->newest_ns_ - static_cast<Nanoseconds>(read_number(in, at_));
  const uint64_t increased = read_number(in, at_);
  value_.increased_ns = increased == 0 ? 0 : table_->newest_ns_ - static_cast<Nanoseconds>(increased - 1);
}

MetricValue MetricTable::operator[](size_t i) const {
  Iterator it = begin();
  while (i-- > 0) ++it;
  return *it;
}

MetricTable merged(const MetricTable* known, const Metrics& news, Nanoseconds now_ns) {
  // Probes report in the order of ids, most of the time.
  std::vector<const Metric*> fresh;
  fresh.reserve(news.metrics.size());
  for (const Metric& m : news.metrics) fresh.push_back(&m);
  const auto before = [](const Metric* a, const Metric* b) { return std::tie(a->id, a->instance) < std::tie(b->id, b->instance); };
  if (!std::is_sorted(fresh.begin(), fresh.end(), before)) std::stable_sort(fresh.begin(), fresh.end(), before);
  // A value that is given twice counts as given last.
  const auto same = [](const Metric* a, const Metric* b) { return a->id == b->id && a->instance == b->instance; };
  size_t kept = 0;
  for (const Metric* m : fresh) {
    if (kept > 0 && same(fresh[kept - 1], m)) --kept;
    fresh[kept++] = m;
  }
  fresh.resize(kept);

  MetricTable out(now_ns);
  const auto add = [&](const Metric& m, int64_t first, Nanoseconds increased_ns) {
    out.append({m.id, m.instance, m.value, first, now_ns, increased_ns});
  };
  auto next = fresh.begin();
  static const MetricTable nothing;
  for (const MetricValue& old : known != nullptr ? *known : nothing) {
    const auto is_before = [&](const Metric& m) { return std::tie(m.id, m.instance) < std::tie(old.id, old.instance); };
    for (; next != fresh.end() && is_before(**next); ++next) add(**next, (*next)->value, 0);
    if (next != fresh.end() && (*next)->id == old.id && (*next)->instance == old.instance) {
      add(**next, old.first, (*next)->value > old.value ? now_ns : old.increased_ns);
      ++next;
    } else if (now_ns - old.heard_ns < stale_ns) {
      out.append(old);
    }
  }
  for (; next != fresh.end(); ++next) add(**next, (*next)->value, 0);
  out.finish(known);
  return out;
}

namespace {

bool is_of_gpu(abi::MetricId id) { return id >= abi::MetricId::gpu_sm_clock_mhz && id < abi::MetricId::port_state; }

}  // namespace

bool tells_of_gpus(const MetricTable& metrics) {
  return std::any_of(metrics.begin(), metrics.end(), [](const MetricValue& v) { return is_of_gpu(v.id); });
}

// ---- what is worth showing -------------------------------------------------------------------------------------------

std::vector<AlsoSeen> also_seen(const MetricTable& metrics, const std::string& gpu_bus_id,
                                const std::vector<std::string>& net_names, Nanoseconds now_ns) {
  std::vector<AlsoSeen> seen;
  const auto is_used = [&net_names](const std::string& port) {
    return std::any_of(net_names.begin(), net_names.end(), [&](const std::string& name) {
      return !name.empty() && (port == name || port.compare(0, name.size() + 1, name + ":") == 0);
    });
  };
  const auto at = [](const MetricValue& v, const std::string& what) {
    return v.instance.empty() ? what : absl::StrCat(what, " (", v.instance, ")");
  };
  const auto increased_ns = [&metrics](abi::MetricId id, std::string_view instance) {
    for (const MetricValue& v : metrics)
      if (v.id == id && v.instance == instance) return v.increased_ns;
    return Nanoseconds{0};
  };
  for (const MetricValue& v : metrics) {
    if (is_of_gpu(v.id) && !gpu_bus_id.empty() && !v.instance.empty() && v.instance != gpu_bus_id) continue;
    switch (v.id) {
      case abi::MetricId::process_threads_stopped:
        if (v.value > 0)
          seen.push_back({"threads of the process that are stopped", static_cast<double>(v.value), "threads"});
        continue;
      case abi::MetricId::gpu_xid_last:
        if (v.value > 0) seen.push_back({at(v, "the GPU's last XID"), static_cast<double>(v.value), "XID", increased_ns(abi::MetricId::gpu_xid_count, v.instance)});
        continue;
      case abi::MetricId::gpu_throttle_reasons: {
        const int64_t slow = v.value & ~(throttle_idle | throttle_application_clocks | throttle_display);
        if (slow != 0)
          seen.push_back({at(v, "the GPU slows its clocks down, NVML reasons"), static_cast<double>(slow), "mask"});
        continue;
      }
      case abi::MetricId::port_state:
        if (v.value != port_up && (v.first == port_up || is_used(v.instance)))
          seen.push_back({at(v, "its network port is not up, state"), static_cast<double>(v.value), ""});
        continue;
      default: break;
    }
    for (const Growing& g : growing) {
      if (g.id != v.id || v.increased_ns == 0 || now_ns - v.increased_ns > growing_ns) continue;
      seen.push_back({at(v, g.what), static_cast<double>(v.value) * g.scale, g.unit, v.increased_ns});
    }
  }
  return seen;
}

Nanoseconds stuck_for_ns(const NetQueue& q) {
  if (q.in_flight == 0) return 0;
  // A queue that rested before its newest post has been waiting since that post at most; so has one that never
  // completed anything.
  const uint32_t waited_ms = std::min(q.complete_age_ms, q.post_age_ms);
  if (waited_ms == age_never) return 0;
  const Nanoseconds waited_ns = static_cast<Nanoseconds>(waited_ms) * ns_per_ms;
  return waited_ns >= queue_stuck_ns ? waited_ns : 0;
}

std::vector<AlsoSeen> also_seen(const std::vector<NetQueue>& queues, Nanoseconds report_age_ns) {
  std::vector<AlsoSeen> seen;
  for (const NetQueue& q : queues) {
    const std::string device = q.device_name.empty() ? absl::StrCat("network device ", q.device) : q.device_name;
    const std::string queue =
        q.number != 0 ? absl::StrCat(device, " queue pair ", q.number) : absl::StrCat("a connection of ", device);
    if (q.errors > 0)
      seen.push_back({absl::StrCat("failed requests of ", queue), static_cast<double>(q.errors), "requests"});
    const Nanoseconds stuck_ns = stuck_for_ns(q);
    if (stuck_ns == 0) continue;
    seen.push_back({absl::StrCat(queue, " has ", q.in_flight, " requests in flight and completes none for"),
                    static_cast<double>(stuck_ns + report_age_ns) / 1e6, "ms"});
  }
  return seen;
}

}  // namespace ccld::decision
