#include "decision/server/memory_guard.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "decision/server/memory_limit.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// A claim of a large communicator takes 80 KB, and 20,000 a second were seen: 3 MB in that time. A look takes 3 us.
constexpr Nanoseconds look_every_ns = 2 * ns_per_ms;
constexpr Nanoseconds watch_every_ns = 10 * ns_per_ms;
// Giving back pages takes milliseconds. At the last resort strangers may be faster: then at the pace at which it
// watches.
constexpr Nanoseconds relieve_every_ns = 250 * ns_per_ms, hurry_every_ns = watch_every_ns;
constexpr Nanoseconds told_every_ns = 60 * ns_per_s;

uint64_t part_of(uint64_t bytes, double part) { return static_cast<uint64_t>(static_cast<double>(bytes) * part); }

}  // namespace

MemoryGuard::System MemoryGuard::real_system() {
  return {resident_bytes, [] { malloc_trim(0); }};
}

MemoryGuard::MemoryGuard(uint64_t bytes_max, System system) : system_(std::move(system)) {
  status_.max_bytes = bytes_max;
}

void MemoryGuard::look(Analyzer& analyzer, Nanoseconds now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + look_every_ns;
  status_.used_bytes = system_.resident_bytes();
  if (status_.max_bytes == 0) return;
  next_watch_ns_ = status_.used_bytes >= part_of(status_.max_bytes, watch_from) ? now_ns + watch_every_ns : INT64_MAX;
  if (is_short() && now_ns >= next_relief_ns_) relieve(analyzer, now_ns);
  if (status_.used_bytes >= part_of(status_.max_bytes, refuse_from) && status_.admits_new) {
    status_.admits_new = false;
    ++refusals_;
    analyzer.admit_new(false);
  }
  if (is_short() || !strained_) return;
  strained_ = false;
  status_.admits_new = true;
  analyzer.admit_new(true);
  if (!std::exchange(told_, false)) return;
  spdlog::info("memory: {} MiB of {} MiB (--memory-max): there is room again", status_.used_bytes >> 20,
               status_.max_bytes >> 20);
}

bool MemoryGuard::is_short() const {
  return status_.max_bytes > 0 && status_.used_bytes >= part_of(status_.max_bytes, let_go_from);
}

bool MemoryGuard::at_last_resort() const {
  return status_.max_bytes > 0 && status_.used_bytes >= part_of(status_.max_bytes, last_resort_from);
}

void MemoryGuard::relieve(Analyzer& analyzer, Nanoseconds now_ns) {
  next_relief_ns_ = now_ns + (at_last_resort() ? hurry_every_ns : relieve_every_ns);
  if (strained_) let_go(analyzer, now_ns);
  system_.trim();
  status_.used_bytes = system_.resident_bytes();
  if (!is_short()) return;
  if (!std::exchange(strained_, true)) analyzer.let_go_histories();
  tell(analyzer, now_ns);
}

void MemoryGuard::let_go(Analyzer& analyzer, Nanoseconds now_ns) {
  if (analyzer.let_go(part_at_once, Worth::claimed, now_ns) > 0 || now_ns < next_of_jobs_ns_) return;
  system_.trim();
  const uint64_t before = system_.resident_bytes();
  if (analyzer.let_go(part_at_once, at_last_resort() ? Worth::needed : Worth::at_rest, now_ns) == 0) return;
  system_.trim();
  const bool in_vain = system_.resident_bytes() >= before;
  wait_of_jobs_ns_ = in_vain ? std::clamp(2 * wait_of_jobs_ns_, relieve_every_ns, told_every_ns) : 0;
  next_of_jobs_ns_ = now_ns + std::max(wait_of_jobs_ns_, relieve_every_ns);
}

void MemoryGuard::tell(const Analyzer& analyzer, Nanoseconds now_ns) {
  if (now_ns < next_told_ns_) return;
  next_told_ns_ = now_ns + told_every_ns;
  told_ = true;
  const LetGo gone = analyzer.let_go_so_far();
  spdlog::warn(
      "memory: {} MiB of {} MiB (--memory-max); let go of so far: {} histories of calls, {} processes, {} "
      "communicators that were silent or without anything in flight; from {} MiB on nobody new is taken in",
      status_.used_bytes >> 20, status_.max_bytes >> 20, gone.call_histories, gone.processes, gone.communicators,
      part_of(status_.max_bytes, refuse_from) >> 20);
}

}  // namespace ccld::decision::server
