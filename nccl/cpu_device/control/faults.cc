#include "nccl/cpu_device/control/faults.h"

#include <array>
#include <condition_variable>
#include <mutex>

#include "nccl/cpu_device/base/clock.h"

namespace ccld::cpu_device {
namespace {

// How finely a slowdown is spread: shorter sleeps than this cost more than they say.
constexpr uint64_t look_interval_ns = 50'000;
constexpr double worth_a_sleep_ns = 1'000'000;
constexpr uint64_t sleep_slice_ns = 2'000'000;

struct FaultState {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<DeviceFaults, faulty_gpus_max> of_gpu;  // guarded by mutex
  std::array<std::atomic<double>, faulty_gpus_max> clock_slowdown;

  FaultState() {
    for (auto& slowdown : clock_slowdown) slowdown = 1.0;
  }
};

// Leaked: device threads may still run while the process exits.
FaultState& state() {
  static FaultState* const instance = new FaultState;
  return *instance;
}

thread_local unsigned worked_for = 0;

}  // namespace

std::atomic<bool> faults_planted{false};

void set_faults(const FaultPlan& plan) {
  FaultState& faults = state();
  {
    std::lock_guard<std::mutex> lock(faults.mutex);
    bool any = false;
    for (unsigned gpu = 0; gpu < faulty_gpus_max; ++gpu) {
      faults.of_gpu[gpu] = plan.on_gpu(gpu);
      faults.clock_slowdown[gpu].store(faults.of_gpu[gpu].clock_slowdown, std::memory_order_relaxed);
      any |= faults.of_gpu[gpu].any();
    }
    faults_planted.store(any, std::memory_order_relaxed);
  }
  faults.changed.notify_all();
}

void work_for_gpu(unsigned gpu) { worked_for = gpu < faulty_gpus_max ? gpu : 0; }

unsigned gpu_worked_for() { return worked_for; }

double clock_slowdown() { return state().clock_slowdown[worked_for].load(std::memory_order_relaxed); }

void wait_while_block_frozen(unsigned block_index) {
  FaultState& faults = state();
  std::unique_lock<std::mutex> lock(faults.mutex);
  faults.changed.wait(lock, [&] {
    const DeviceFaults& here = faults.of_gpu[worked_for];
    return !here.freeze_device && !(block_index < freezable_blocks_max && here.frozen_blocks.test(block_index));
  });
}

void wait_while_device_frozen() {
  if (!faults_planted.load(std::memory_order_relaxed)) return;
  FaultState& faults = state();
  std::unique_lock<std::mutex> lock(faults.mutex);
  faults.changed.wait(lock, [&] { return !faults.of_gpu[worked_for].freeze_device; });
}

void spend_device_time(uint64_t device_ns) {
  double left_ns = static_cast<double>(device_ns);
  while (left_ns > 0) {
    wait_while_device_frozen();
    const double slowdown = clock_slowdown();
    const double wanted_ns = left_ns * slowdown;
    const uint64_t begin_ns = monotonic_ns();
    sleep_ns(wanted_ns < sleep_slice_ns ? static_cast<uint64_t>(wanted_ns) + 1 : sleep_slice_ns);
    left_ns -= static_cast<double>(monotonic_ns() - begin_ns) / slowdown;
  }
}

void SlowClock::start() {
  // The processor clock is read lazily: reading it costs a system call, and most kernels see no fault.
  running_ = false;
  slept_ns_ = 0;
  debt_ns_ = 0;
  next_look_ns_ = 0;
}

void SlowClock::account() {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < next_look_ns_) return;
  charge();
  if (debt_ns_ >= worth_a_sleep_ns) pay();
  next_look_ns_ = monotonic_ns() + look_interval_ns;
}

void SlowClock::settle() {
  if (!running_) return;
  charge();
  if (debt_ns_ > 0) pay();
  running_ = false;
}

void SlowClock::charge() {
  const uint64_t cpu_ns = thread_cpu_ns();
  if (running_) debt_ns_ += static_cast<double>(cpu_ns - charged_until_cpu_ns_) * (clock_slowdown() - 1.0);
  running_ = true;
  charged_until_cpu_ns_ = cpu_ns;
}

void SlowClock::pay() {
  while (debt_ns_ > 0 && clock_slowdown() > 1.0) {
    const uint64_t begin_ns = monotonic_ns();
    sleep_ns(debt_ns_ < sleep_slice_ns ? static_cast<uint64_t>(debt_ns_) + 1 : sleep_slice_ns);
    const uint64_t slept_ns = monotonic_ns() - begin_ns;
    slept_ns_ += slept_ns;
    debt_ns_ -= static_cast<double>(slept_ns);  // an overlong sleep is credit for the next one
  }
  if (clock_slowdown() <= 1.0) debt_ns_ = 0;
  charged_until_cpu_ns_ = thread_cpu_ns();
}

}  // namespace ccld::cpu_device
