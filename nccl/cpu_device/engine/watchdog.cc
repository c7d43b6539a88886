#include "nccl/cpu_device/engine/watchdog.h"

#include <mutex>
#include <thread>
#include <vector>

#include "nccl/cpu_device/base/clock.h"
#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/engine/block.h"

namespace ccld::cpu_device {
namespace {

struct Watched {
  const Block* block;
  clockid_t cpu_clock;
  uint64_t scheduling_points;  // at the last look that saw progress
  uint64_t cpu_ns;             // at the same time
  bool reported;
};

class Watchdog {
 public:
  void add(const Block& block) {
    Watched entry{&block, 0, 0, 0, false};
    if (pthread_getcpuclockid(pthread_self(), &entry.cpu_clock) != 0) return;
    std::lock_guard<std::mutex> lock(mutex_);
    watched_.push_back(entry);
    if (started_) return;
    started_ = true;
    std::thread([this] { run(); }).detach();
  }

 private:
  static constexpr uint64_t look_interval_ns = 500'000'000;

  void run() {
    pthread_setname_np(pthread_self(), "ccld-watchdog");
    for (;;) {
      sleep_ns(look_interval_ns);
      std::lock_guard<std::mutex> lock(mutex_);
      for (Watched& entry : watched_) look_at(entry);
    }
  }

  static void look_at(Watched& entry) {
    const uint64_t points = entry.block->scheduling_points.load(std::memory_order_relaxed);
    const uint64_t cpu_ns = clock_ns(entry.cpu_clock);
    if (points == 0 || points != entry.scheduling_points) {
      entry.scheduling_points = points;
      entry.cpu_ns = cpu_ns;
      entry.reported = false;
      return;
    }
    const uint64_t limit_ns = uint64_t{settings().watchdog_s} * 1'000'000'000u;
    if (entry.reported || cpu_ns - entry.cpu_ns < limit_ns) return;
    entry.reported = true;
    report(
        "kernel %s, block %u has computed for %u s without a barrier, exchange or poll: a polling loop that does "
        "not yield?",
        entry.block->launch.kernel->name, entry.block->launch.block_index, settings().watchdog_s);
  }

  std::mutex mutex_;
  std::vector<Watched> watched_;
  bool started_ = false;
};

}  // namespace

void watch_block(const Block& block) {
  static Watchdog* const watchdog = new Watchdog;  // leaked: its thread lives as long as the process
  if (settings().watchdog_s != 0) watchdog->add(block);
}

}  // namespace ccld::cpu_device
