#include "decision/model/metric_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schemas/abi/names.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds stale_ns = 60 * ns_per_s;
// A counter that grew within this time is still growing for whoever looks: it is reported once a second.
constexpr Nanoseconds growing_ns = 30 * ns_per_s;

bool same_place(const MetricValue& a, const MetricValue& b) { return a.id == b.id && a.instance == b.instance; }
bool before(const MetricValue& a, const MetricValue& b) {
  return std::tie(a.id, a.instance) < std::tie(b.id, b.instance);
}

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
    case abi::MetricId::health_sources:
    case abi::MetricId::process_threads_running:
    case abi::MetricId::process_threads_sleeping:
    case abi::MetricId::process_threads_disk_wait:
    case abi::MetricId::process_threads_stopped:
    case abi::MetricId::process_threads_zombie:
    case abi::MetricId::process_main_thread_state:
    case abi::MetricId::process_resident_bytes:
    case abi::MetricId::cgroup_memory_bytes:
    case abi::MetricId::cgroup_memory_limit_bytes:
    case abi::MetricId::host_load_per_mille:
    case abi::MetricId::host_memory_available_bytes:
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

MetricTable merged(const MetricTable* known, const Metrics& news, Nanoseconds now_ns) {
  MetricTable out;
  out.reserve(news.metrics.size());
  for (const Metric& m : news.metrics) out.push_back({m.id, m.instance, m.value, m.value, now_ns, 0});
  std::stable_sort(out.begin(), out.end(), before);
  // A value that is given twice counts as given last.
  MetricTable unique;
  for (MetricValue& v : out) {
    if (!unique.empty() && same_place(unique.back(), v)) unique.pop_back();
    unique.push_back(std::move(v));
  }
  out.clear();
  auto fresh = unique.begin();
  const auto keep = [&out](MetricValue v) {
    if (out.size() < metrics_kept_max) out.push_back(std::move(v));
  };
  static const MetricTable nothing;
  for (const MetricValue& old : known != nullptr ? *known : nothing) {
    while (fresh != unique.end() && before(*fresh, old)) keep(std::move(*fresh++));
    if (fresh != unique.end() && same_place(*fresh, old)) {
      fresh->first = old.first;
      fresh->increased_ns = fresh->value > old.value ? now_ns : old.increased_ns;
      keep(std::move(*fresh++));
    } else if (now_ns - old.heard_ns < stale_ns) {
      keep(old);
    }
  }
  while (fresh != unique.end()) keep(std::move(*fresh++));
  return out;
}

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
  for (const MetricValue& v : metrics) {
    const bool of_gpu = v.id >= abi::MetricId::gpu_sm_clock_mhz && v.id < abi::MetricId::port_state;
    if (of_gpu && !gpu_bus_id.empty() && !v.instance.empty() && v.instance != gpu_bus_id) continue;
    switch (v.id) {
      case abi::MetricId::process_threads_stopped:
        if (v.value > 0)
          seen.push_back({"threads of the process that are stopped", static_cast<double>(v.value), "threads"});
        continue;
      case abi::MetricId::gpu_xid_last:
        if (v.value > 0) seen.push_back({at(v, "the GPU's last XID"), static_cast<double>(v.value), "XID"});
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
      seen.push_back({at(v, g.what), static_cast<double>(v.value) * g.scale, g.unit});
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
