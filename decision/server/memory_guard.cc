#include "decision/server/memory_guard.h"

#include <malloc.h>

#include <utility>

#include "decision/server/memory_limit.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// A claim of a large communicator takes 80 KB, and 20,000 a second were seen: 3 MB in that time. A look takes 3 us.
constexpr Nanoseconds look_every_ns = 2 * ns_per_ms;
constexpr Nanoseconds relieve_every_ns = 250 * ns_per_ms;  // giving back pages takes milliseconds
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
  if (is_strained() && now_ns >= next_relief_ns_) relieve(analyzer, now_ns);
  if (status_.used_bytes >= part_of(status_.max_bytes, refuse_from) && status_.admits_new) {
    status_.admits_new = false;
    analyzer.admit_new(false);
  }
  if (is_strained() || !strained_) return;
  strained_ = false;
  status_.admits_new = true;
  analyzer.admit_new(true);
  spdlog::info("memory: {} MiB of {} MiB (--memory-max): there is room again", status_.used_bytes >> 20,
               status_.max_bytes >> 20);
}

bool MemoryGuard::is_strained() const { return status_.used_bytes >= part_of(status_.max_bytes, let_go_from); }

void MemoryGuard::relieve(Analyzer& analyzer, Nanoseconds now_ns) {
  next_relief_ns_ = now_ns + relieve_every_ns;
  const bool last_resort = status_.used_bytes >= part_of(status_.max_bytes, last_resort_from);
  if (strained_) analyzer.let_go(part_at_once, last_resort, now_ns);
  system_.trim();
  status_.used_bytes = system_.resident_bytes();
  if (!is_strained()) return;
  if (!std::exchange(strained_, true)) analyzer.let_go_histories();
  tell(analyzer, now_ns);
}

void MemoryGuard::tell(const Analyzer& analyzer, Nanoseconds now_ns) {
  if (now_ns < next_told_ns_) return;
  next_told_ns_ = now_ns + told_every_ns;
  const LetGo gone = analyzer.let_go_so_far();
  spdlog::warn(
      "memory: {} MiB of {} MiB (--memory-max); let go of so far: {} histories of calls, {} processes, {} "
      "communicators without anything in flight; from {} MiB on nobody new is taken in",
      status_.used_bytes >> 20, status_.max_bytes >> 20, gone.call_histories, gone.processes, gone.communicators,
      part_of(status_.max_bytes, refuse_from) >> 20);
}

}  // namespace ccld::decision::server
