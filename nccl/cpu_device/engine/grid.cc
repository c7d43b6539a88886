// Runs grids: one OS thread per block, all blocks of a grid at once, threads reused between grids.
#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/control/control_file.h"
#include "nccl/cpu_device/engine/block.h"
#include "nccl/cpu_device/engine/engine.h"
#include "nccl/cpu_device/engine/watchdog.h"

namespace ccld::cpu_device {
namespace {

constexpr unsigned blocks_max = 4096;  // resident at once; far above NCCL's 64 channels

struct Hooks {
  std::mutex mutex;
  std::vector<SharedMemoryHook> list;
};

Hooks& hooks() {
  static Hooks* const instance = new Hooks;
  return *instance;
}

// The blocks of one launch that still run.
struct Completion {
  std::mutex mutex;
  std::condition_variable all_done;
  unsigned left;
};

class Worker {
 public:
  Worker() {
    std::thread([this] { run(); }).detach();
  }

  void assign(const BlockLaunch& launch, Completion* completion) {
    std::lock_guard<std::mutex> lock(mutex_);
    launch_ = launch;
    completion_ = completion;
    assigned_.notify_one();
  }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable assigned_;
  BlockLaunch launch_{};
  Completion* completion_ = nullptr;
};

class WorkerPool {
 public:
  Worker* take() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        Worker* worker = idle_.back();
        idle_.pop_back();
        return worker;
      }
    }
    return new Worker;
  }

  void give_back(Worker* worker) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(worker);
  }

 private:
  std::mutex mutex_;
  std::vector<Worker*> idle_;
};

WorkerPool& pool() {
  static WorkerPool* const instance = new WorkerPool;
  return *instance;
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "ccld-block");
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default of 50 us would double the shortest sleep of a polling block
  auto* block = new Block(settings().stack_bytes);
  watch_block(*block);
  for (;;) {
    BlockLaunch launch;
    Completion* completion;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      assigned_.wait(lock, [&] { return completion_ != nullptr; });
      launch = launch_;
      completion = completion_;
      completion_ = nullptr;
    }
    {
      std::lock_guard<std::mutex> lock(hooks().mutex);
      for (SharedMemoryHook hook : hooks().list) {
        hook(block->shared_memory, block->shared_memory + static_shared_bytes_max);
      }
    }
    run_block(*block, launch);
    pool().give_back(this);
    std::lock_guard<std::mutex> lock(completion->mutex);
    if (--completion->left == 0) completion->all_done.notify_all();
  }
}

void check_limits(const KernelInfo& kernel, LaunchShape shape, size_t dynamic_shared_bytes) {
  const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  if (threads == 0 || threads > threads_max) {
    fatal("kernel %s: %llu threads a block, at most %u are possible", kernel.name,
          static_cast<unsigned long long>(threads), threads_max);
  }
  if (blocks == 0 || blocks > blocks_max) {
    fatal("kernel %s: %llu blocks, at most %u run at once", kernel.name, static_cast<unsigned long long>(blocks),
          blocks_max);
  }
  if (kernel.static_shared_bytes > static_shared_bytes_max || dynamic_shared_bytes > dynamic_shared_bytes_max) {
    fatal("kernel %s: %zu static and %zu dynamic bytes of shared memory, at most %zu and %zu are possible", kernel.name,
          kernel.static_shared_bytes, dynamic_shared_bytes, static_shared_bytes_max, dynamic_shared_bytes_max);
  }
}

}  // namespace

void add_shared_memory_hook(SharedMemoryHook hook) {
  std::lock_guard<std::mutex> lock(hooks().mutex);
  hooks().list.push_back(hook);
}

void run_grid(const void* function, const KernelInfo& kernel, const void* arguments, LaunchShape shape,
              size_t dynamic_shared_bytes) {
  static std::atomic<uint64_t> launches{0};
  check_limits(kernel, shape, dynamic_shared_bytes);
  start_control_file();
  const unsigned blocks = shape.grid.x * shape.grid.y * shape.grid.z;
  Completion completion;
  completion.left = blocks;
  BlockLaunch launch{function,        &kernel, arguments, shape, 0, launches.fetch_add(1, std::memory_order_relaxed),
                     gpu_worked_for()};
  for (unsigned i = 0; i < blocks; ++i) {
    launch.block_index = i;
    pool().take()->assign(launch, &completion);
  }
  std::unique_lock<std::mutex> lock(completion.mutex);
  completion.all_done.wait(lock, [&] { return completion.left == 0; });
}

}  // namespace ccld::cpu_device
