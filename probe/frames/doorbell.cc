#include "probe/frames/doorbell.h"

#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ccld::probe {
namespace {

static_assert(sizeof(doorbell_resting) == sizeof(uint32_t), "the kernel waits on the word itself");

bool exact = false;  // of the diagnostic thread

}  // namespace

bool doorbell_ring() {
  if (doorbell_resting.exchange(0, std::memory_order_acq_rel) == 0) return false;
  syscall(SYS_futex, &doorbell_resting, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  return true;
}

bool doorbell_prepare() {
  exact = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return exact;
}

bool doorbell_rest(uint64_t until_monotonic_ns, bool (*anything_new)(void* context), void* context) {
  doorbell_resting.store(1, std::memory_order_seq_cst);
  // Afterwards every other thread has either seen the word, or its stores before the look are visible here.
  if (exact) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  if (anything_new(context)) {
    doorbell_resting.store(0, std::memory_order_relaxed);
    return true;
  }
  constexpr uint64_t ns_in_s = 1000000000u;
  const timespec until{static_cast<time_t>(until_monotonic_ns / ns_in_s),
                       static_cast<long>(until_monotonic_ns % ns_in_s)};
  while (doorbell_resting.load(std::memory_order_acquire) == 1) {
    // Bit set waits take an absolute time of the monotonic clock.
    const long result =
        syscall(SYS_futex, &doorbell_resting, FUTEX_WAIT_BITSET_PRIVATE, 1, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (result != 0 && errno != EAGAIN && errno != EINTR) break;  // ETIMEDOUT
  }
  return doorbell_resting.exchange(0, std::memory_order_acq_rel) == 0;
}

}  // namespace ccld::probe
