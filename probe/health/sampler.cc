#include "probe/health/sampler.h"

#include <algorithm>
#include <utility>

#include "probe/health/gpu_part.h"
#include "probe/health/host_part.h"
#include "probe/health/port_part.h"
#include "probe/health/process_part.h"
#include "probe/health/run_delay_part.h"

namespace ccld::probe {

void Sampler::add(std::unique_ptr<HealthPart> part, bool host_wide, std::vector<std::string>* absent) {
  if (!part->open(absent)) return;
  entries_.push_back({std::move(part), host_wide, 0, {}});
}

bool Sampler::tick(bool speaks_for_host) {
  bool any = false;
  const uint64_t early_ns = options_.period_ns / 8;  // at most; and as much late
  const uint64_t shift_ns = std::uniform_int_distribution<uint64_t>(0, 2 * early_ns)(random_);
  for (Entry& entry : entries_) {
    const Instant now = clock_.now();
    if (entry.due_ns > now.monotonic_ns) continue;
    if (entry.host_wide && !speaks_for_host) {
      any = any || !entry.values.empty();
      entry.values.clear();
      entry.due_ns = now.monotonic_ns + options_.period_ns;
      continue;
    }
    entry.values.clear();
    const uint64_t cpu_before_ns = clock_.thread_cpu_ns();
    entry.part->read(now, &entry.values);
    const uint64_t cost_ns = clock_.thread_cpu_ns() - cpu_before_ns;
    const uint64_t affordable_ns = cost_ns * 1000000 / (options_.part_share_ppm * entry.part->share_factor());
    const uint64_t pause_ns = std::clamp(affordable_ns, options_.period_ns, options_.period_max_ns);
    entry.due_ns = now.monotonic_ns + pause_ns - early_ns + shift_ns;
    any = true;
  }
  return any;
}

uint64_t Sampler::next_due_ns() const {
  uint64_t next = UINT64_MAX;
  for (const Entry& entry : entries_) next = std::min(next, entry.due_ns);
  return next;
}

Metrics Sampler::values() const {
  Metrics all;
  for (const Entry& entry : entries_) all.insert(all.end(), entry.values.begin(), entry.values.end());
  return all;
}

unsigned Sampler::source_count() const {
  unsigned count = 0;
  for (const Entry& entry : entries_) count += entry.part->source_count();
  return count;
}

void add_all_parts(Sampler* sampler, const HealthRoots& roots, std::vector<std::string>* absent) {
  const auto gpu_threads = std::make_shared<std::vector<pid_t>>();
  sampler->add(std::make_unique<ProcessPart>(roots), false, absent);
  sampler->add(std::make_unique<ThreadsPart>(roots, gpu_threads), false, absent);
  sampler->add(std::make_unique<RunDelayPart>(roots, gpu_threads), false, absent);
  sampler->add(std::make_unique<ThreadsDelayPart>(roots), false, absent);
  sampler->add(std::make_unique<CgroupPart>(roots), false, absent);
  sampler->add(std::make_unique<HostPart>(roots), true, absent);
  sampler->add(std::make_unique<PortPart>(roots), true, absent);
  sampler->add(std::make_unique<GpuPart>(), true, absent);
}

}  // namespace ccld::probe
