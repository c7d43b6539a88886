#include "probe/health/process_part.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "probe/health/thread_run.h"

namespace ccld::probe {
namespace {

using abi::MetricId;

constexpr unsigned stat_major_faults = 12, stat_resident_pages = 24;

}  // namespace

bool ProcessPart::open(std::vector<std::string>* absent) {
  ticks_per_s_ = sysconf(_SC_CLK_TCK);
  page_bytes_ = sysconf(_SC_PAGESIZE);
  if (stat_.open(roots_.proc + "/self/stat")) return true;
  absent->push_back("no " + roots_.proc + "/self/stat: nothing about the process");
  return false;
}

void ProcessPart::read(Instant, Metrics* out) {
  const std::string stat = stat_.read();
  const std::string_view fields = fields_from_state(stat);
  if (fields.empty()) return;
  add_metric(out, MetricId::process_main_thread_state, fields[0]);
  if (const auto value = stat_field(fields, stat_major_faults))
    add_metric(out, MetricId::process_major_faults, static_cast<int64_t>(*value));
  const auto ticks_ns = [this](uint64_t ticks) {
    return static_cast<int64_t>(ticks * (ns_per_s / static_cast<uint64_t>(ticks_per_s_)));
  };
  if (const auto value = stat_field(fields, stat_user_ticks))
    add_metric(out, MetricId::process_user_ns, ticks_ns(*value));
  if (const auto value = stat_field(fields, stat_system_ticks))
    add_metric(out, MetricId::process_system_ns, ticks_ns(*value));
  if (const auto value = stat_field(fields, stat_resident_pages))
    add_metric(out, MetricId::process_resident_bytes, static_cast<int64_t>(*value) * page_bytes_);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) add_metric(out, MetricId::process_involuntary_switches, usage.ru_nivcsw);
}

namespace {

// What the CPU device calls its blocks and streams.
constexpr std::string_view gpu_thread_names[] = {"ccld-block", "ccld-stream"};

bool stands_for_gpu(std::string_view name) {
  return std::find(std::begin(gpu_thread_names), std::end(gpu_thread_names), name) != std::end(gpu_thread_names);
}

}  // namespace

bool ThreadsPart::open(std::vector<std::string>* absent) {
  folder_.reset(opendir((roots_.proc + "/self/task").c_str()));
  if (folder_ != nullptr) return true;
  absent->push_back("no " + roots_.proc + "/self/task: thread states are not known");
  return false;
}

void ThreadsPart::read(Instant, Metrics* out) {
  int64_t running = 0, sleeping = 0, disk_wait = 0, stopped = 0, zombie = 0;
  if (gpu_threads_) gpu_threads_->clear();
  rewinddir(folder_.get());
  while (const dirent* entry = readdir(folder_.get())) {
    if (entry->d_name[0] == '.') continue;
    char path[sizeof(entry->d_name) + 8];
    strcpy(path, entry->d_name);
    strcat(path, "/stat");
    const int file = openat(dirfd(folder_.get()), path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    char text[256];
    const ssize_t size = ::read(file, text, sizeof(text));
    close(file);
    if (size <= 0) continue;
    const std::string_view stat(text, static_cast<size_t>(size)), fields = fields_from_state(stat);
    if (fields.empty()) continue;
    if (gpu_threads_ && gpu_threads_->size() < gpu_threads_max && stands_for_gpu(task_name(stat)))
      gpu_threads_->push_back(static_cast<pid_t>(strtol(entry->d_name, nullptr, 10)));
    switch (fields[0]) {
      case 'R': ++running; break;
      case 'D': ++disk_wait; break;
      case 'T':
      case 't': ++stopped; break;
      case 'Z':
      case 'X': ++zombie; break;
      default: ++sleeping; break;
    }
  }
  add_metric(out, MetricId::process_threads_running, running);
  add_metric(out, MetricId::process_threads_sleeping, sleeping);
  add_metric(out, MetricId::process_threads_disk_wait, disk_wait);
  add_metric(out, MetricId::process_threads_stopped, stopped);
  add_metric(out, MetricId::process_threads_zombie, zombie);
}

}  // namespace ccld::probe
