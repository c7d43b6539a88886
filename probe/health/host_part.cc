#include "probe/health/host_part.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ccld::probe {
namespace {

using abi::MetricId;

void add_if(Metrics* out, MetricId id, std::optional<uint64_t> value) {
  if (value) add_metric(out, id, static_cast<int64_t>(*value));
}

// The folder of this process's group, as the process sees the hierarchy; empty without version 2.
std::string group_folder(const HealthRoots& roots) {
  KernelFile membership;
  if (!membership.open(roots.proc + "/self/cgroup")) return {};
  constexpr std::string_view version_2 = "0::";
  const std::string groups = membership.read();
  const std::string_view line = line_of(groups, version_2);
  if (line.empty()) return {};
  return roots.sys + "/fs/cgroup" + std::string(trimmed(line.substr(version_2.size())));
}

}  // namespace

bool CgroupPart::open(std::vector<std::string>* absent) {
  const std::string group = group_folder(roots_);
  // In a container the path may be that of the host: then its own group is mounted at the root.
  for (const std::string& folder : {group, roots_.sys + "/fs/cgroup"}) {
    if (folder.empty()) continue;
    cpu_stat_.open(folder + "/cpu.stat");
    memory_current_.open(folder + "/memory.current");
    memory_max_.open(folder + "/memory.max");
    memory_events_.open(folder + "/memory.events");
    if (source_count() != 0) break;
  }
  if (!cpu_stat_.is_open()) absent->push_back("no cpu.stat of a version 2 control group: throttling is not known");
  if (!memory_current_.is_open())
    absent->push_back("no memory.current of a version 2 control group: its memory is not known");
  return source_count() != 0;
}

unsigned CgroupPart::source_count() const {
  return static_cast<unsigned>(cpu_stat_.is_open()) + static_cast<unsigned>(memory_current_.is_open()) +
         static_cast<unsigned>(memory_max_.is_open()) + static_cast<unsigned>(memory_events_.is_open());
}

void CgroupPart::read(Instant, Metrics* out) {
  const std::string cpu = cpu_stat_.read();
  add_if(out, MetricId::cgroup_throttled_periods, number_after(cpu, "nr_throttled "));
  add_if(out, MetricId::cgroup_throttled_us, number_after(cpu, "throttled_usec "));
  add_if(out, MetricId::cgroup_memory_bytes, memory_current_.read_number());
  add_if(out, MetricId::cgroup_memory_limit_bytes, memory_max_.read_number());  // "max": no limit, no value
  const std::string events = memory_events_.read();
  add_if(out, MetricId::cgroup_oom_kills, number_after(events, "oom_kill "));
  add_if(out, MetricId::cgroup_memory_high_events, number_after(events, "high "));
}

bool HostPart::open(std::vector<std::string>* absent) {
  processors_ = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  const std::string pressure = roots_.proc + "/pressure/";
  cpu_.open(pressure + "cpu");
  memory_.open(pressure + "memory");
  io_.open(pressure + "io");
  // It can be opened where the kernel was started without it, and then not be read.
  if (cpu_.read().empty()) {
    cpu_ = KernelFile();
    memory_ = KernelFile();
    io_ = KernelFile();
    absent->push_back("no " + pressure + "cpu: pressure on processors, memory and disks is not known");
  }
  if (!load_.open(roots_.proc + "/loadavg"))
    absent->push_back("no " + roots_.proc + "/loadavg: the host's load is not known");
  if (!meminfo_.open(roots_.proc + "/meminfo"))
    absent->push_back("no " + roots_.proc + "/meminfo: the host's memory is not known");
  return source_count() != 0;
}

unsigned HostPart::source_count() const {
  return static_cast<unsigned>(cpu_.is_open()) + static_cast<unsigned>(memory_.is_open()) +
         static_cast<unsigned>(io_.is_open()) + static_cast<unsigned>(load_.is_open()) +
         static_cast<unsigned>(meminfo_.is_open());
}

void HostPart::read(Instant, Metrics* out) {
  add_if(out, MetricId::pressure_cpu_some_us, number_after(line_of(cpu_.read(), "some "), "total="));
  const std::string memory = memory_.read();
  add_if(out, MetricId::pressure_memory_some_us, number_after(line_of(memory, "some "), "total="));
  add_if(out, MetricId::pressure_memory_full_us, number_after(line_of(memory, "full "), "total="));
  add_if(out, MetricId::pressure_io_full_us, number_after(line_of(io_.read(), "full "), "total="));
  const std::string load = load_.read();  // "0.70 1.20 1.42 3/90 18443": the fourth are runnable tasks of all tasks
  if (!load.empty()) {
    const double one_minute = strtod(load.c_str(), nullptr);
    add_metric(out, MetricId::host_load_per_mille,
               static_cast<int64_t>(one_minute * 1000.0 / static_cast<double>(processors_)));
  }
  if (const auto kilobytes = number_after(meminfo_.read(), "MemAvailable:"))
    add_metric(out, MetricId::host_memory_available_bytes, static_cast<int64_t>(*kilobytes * 1024));
  if (const size_t slash = load.find('/'); slash != std::string::npos)
    add_if(out, MetricId::host_runnable_tasks, number_at(load.substr(load.rfind(' ', slash) + 1)));
  add_metric(out, MetricId::host_processors, processors_);
}

}  // namespace ccld::probe
