#include "probe/process/proxy_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace ccld::probe {
namespace {

std::atomic<pid_t> known[proxy_threads_max];  // 0: free

}  // namespace

void note_proxy_thread() {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  for (const std::atomic<pid_t>& slot : known)
    if (slot.load(std::memory_order_relaxed) == own) return;
  for (std::atomic<pid_t>& slot : known) {
    pid_t free = 0;
    // Relaxed: the number is all there is to read.
    if (slot.compare_exchange_strong(free, own, std::memory_order_relaxed)) return;
  }
}

std::vector<pid_t> proxy_threads() {
  std::vector<pid_t> all;
  for (const std::atomic<pid_t>& slot : known)
    if (const pid_t thread = slot.load(std::memory_order_relaxed); thread != 0) all.push_back(thread);
  return all;
}

void forget_proxy_thread(pid_t thread) {
  for (std::atomic<pid_t>& slot : known) {
    pid_t is = thread;
    slot.compare_exchange_strong(is, 0, std::memory_order_relaxed);
  }
}

}  // namespace ccld::probe
