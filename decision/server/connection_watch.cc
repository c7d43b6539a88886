#include "decision/server/connection_watch.h"

#include <chrono>
#include <utility>

#include "decision/server/clock.h"
#include "decision/server/memory_guard.h"

namespace ccld::decision::server {
namespace {

using std::chrono::milliseconds;
// At 170 MB a second, as measured, 17 MB arrive in the longer period and 2 MB in the shorter one, which is used from
// MemoryGuard::watch_from on. Reading the resident memory takes 3 us.
constexpr milliseconds look_every{100}, look_soon{10};

}  // namespace

ConnectionWatch::ConnectionWatch(ingest::ConnectionRoom& room, uint64_t memory_max_bytes,
                                 std::function<uint64_t()> resident_bytes)
    : room_(room), memory_max_bytes_(memory_max_bytes), resident_bytes_(std::move(resident_bytes)) {
  if (memory_max_bytes_ > 0) thread_ = std::thread([this] { run(); });
}

ConnectionWatch::~ConnectionWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ConnectionWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto used_part = static_cast<double>(resident_bytes_()) / static_cast<double>(memory_max_bytes_);
    if (used_part >= MemoryGuard::let_go_from) room_.look(monotonic_now_ns(), ingest::ConnectionRoom::Memory::short_of);
    changed_.wait_for(lock, used_part >= MemoryGuard::watch_from ? look_soon : look_every, [this] { return ending_; });
  }
}

}  // namespace ccld::decision::server
