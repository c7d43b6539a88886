#include "nccl/cpu_device/control/faults.h"

#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "nccl/cpu_device/base/clock.h"
#include "test/unit/cpu_device/launch.h"

using namespace ccld::cpu_device;

namespace {

// Whatever a test plants is gone at its end.
struct PlantedFaults {
  explicit PlantedFaults(const FaultPlan& plan) { set_faults(plan); }
  ~PlantedFaults() { set_faults({}); }
};

FaultPlan slowdown(double factor) {
  FaultPlan plan;
  plan.clock_slowdown = factor;
  return plan;
}

FaultPlan frozen_block(unsigned block) {
  FaultPlan plan;
  plan.frozen_blocks.set(block);
  return plan;
}

void compute() {
  for (int i = 0; i < 10000; ++i) asm volatile("");
}

struct KernelRun {
  uint64_t wall_ns;
  uint64_t work_ns;  // of a processor, in compute() alone
  long sleeps;       // of the block's thread
};

KernelRun run_computing_kernel() {
  KernelRun result{};
  run(1, 32, [&] {
    if (thread_index() != 0) return;
    rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    const uint64_t begin_ns = monotonic_ns();
    for (int step = 0; step < 4000; ++step) {
      const uint64_t step_begin_cpu_ns = thread_cpu_ns();
      compute();
      result.work_ns += thread_cpu_ns() - step_begin_cpu_ns;
      barrier(1, 1);  // a scheduling point
    }
    result.wall_ns = monotonic_ns() - begin_ns;
    getrusage(RUSAGE_THREAD, &after);
    result.sleeps = after.ru_nvcsw - before.ru_nvcsw;
  });
  return result;
}

}  // namespace

TEST_CASE("A frozen block stops and continues, the others are not affected", "[control]") {
  std::atomic<long> progress[2] = {{0}, {0}};
  std::atomic<bool> stop{false};
  bool leave[2] = {};
  struct Joining {
    std::atomic<bool>* stop;
    std::thread thread;
    ~Joining() {
      set_faults({});
      *stop = true;
      thread.join();
    }
  };
  const Joining grid{&stop, std::thread([&] {
                       run(2, 64, [&] {
                         const unsigned block = current_block_index.x;
                         for (;;) {
                           if (current_fiber->linear_index == 0)
                             leave[block] = stop;  // all threads of a block must agree
                           barrier(0, 0);
                           if (leave[block]) break;
                           ++progress[block];
                           barrier(0, 0);
                         }
                       });
                     })};
  const auto moves = [&](int block) {
    const long before = progress[block];
    const uint64_t deadline_ns = monotonic_ns() + 5'000'000'000;
    while (progress[block] < before + 1000 && monotonic_ns() < deadline_ns) std::this_thread::yield();
    return progress[block] >= before + 1000;
  };
  REQUIRE(moves(0));
  REQUIRE(moves(1));
  {
    PlantedFaults planted(frozen_block(1));
    const long frozen_at = progress[1];
    REQUIRE(moves(0));
    REQUIRE(progress[1] <= frozen_at + 1);  // the running thread may be on its way to its next scheduling point
  }
  REQUIRE(moves(1));
  {
    FaultPlan everything;
    everything.freeze_device = true;
    PlantedFaults planted(everything);
    long seen[2];
    do {
      seen[0] = progress[0];
      seen[1] = progress[1];
      sleep_ns(20'000'000);
    } while (seen[0] != progress[0] || seen[1] != progress[1]);
  }
  REQUIRE(moves(0));
  REQUIRE(moves(1));
}

// Only what the load of the machine cannot change is asserted.
TEST_CASE("A slowed clock makes a kernel take its factor longer, and a healthy kernel never sleeps", "[control]") {
  REQUIRE(run_computing_kernel().sleeps == 0);
  KernelRun slow{};
  {
    PlantedFaults planted(slowdown(8.0));
    slow = run_computing_kernel();
  }
  REQUIRE(run_computing_kernel().sleeps == 0);
  REQUIRE(slow.sleeps > 0);
  // Its own work, not that of a healthy run: a processor is faster at one moment than at the next. Not quite 8: what is
  // owed at the end is less than a sleep is worth.
  REQUIRE(static_cast<double>(slow.wall_ns) > 7.0 * static_cast<double>(slow.work_ns));
}

TEST_CASE("A slow clock sleeps (factor - 1) times the processor time that was used", "[control]") {
  PlantedFaults planted(slowdown(3.0));
  SlowClock clock;
  clock.start();
  clock.account();
  uint64_t used_ns = 0;
  for (int step = 0; step < 2000; ++step) {
    const uint64_t begin_ns = thread_cpu_ns();
    compute();
    used_ns += thread_cpu_ns() - begin_ns;
    clock.account();
  }
  clock.settle();
  const double ratio = static_cast<double>(clock.slept_ns()) / static_cast<double>(used_ns);
  REQUIRE(ratio > 1.9);
  // Late wake-ups are taken off the next sleep: only the last one and the account itself can come on top.
  REQUIRE(static_cast<double>(clock.slept_ns()) < 4.0 * static_cast<double>(used_ns) + 500e6);
}

TEST_CASE("Device time passes as asked, and longer on a slowed clock", "[control]") {
  const auto measure = [] {
    const uint64_t begin_ns = monotonic_ns();
    spend_device_time(20'000'000);
    return static_cast<double>(monotonic_ns() - begin_ns) * 1e-6;
  };
  const double normal_ms = measure();
  REQUIRE(normal_ms >= 19.9);
  PlantedFaults planted(slowdown(3.0));
  REQUIRE(measure() >= 59.5);
}

TEST_CASE("Device time uses next to no processor time", "[control]") {
  const uint64_t begin_ns = thread_cpu_ns();
  spend_device_time(100'000'000);
  REQUIRE(thread_cpu_ns() - begin_ns < 10'000'000);
}

TEST_CASE("A frozen device stops device time and stream work until it thaws", "[control]") {
  FaultPlan plan;
  plan.freeze_device = true;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  {
    PlantedFaults planted(plan);
    cudaLaunchHostFunc(
        stream, [](void*) {}, nullptr);
    sleep_ns(30'000'000);
    REQUIRE(cudaStreamQuery(stream) == cudaErrorNotReady);
  }
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  cudaStreamDestroy(stream);
}

TEST_CASE("A fault of one GPU leaves the others of the process alone", "[control]") {
  FaultPlan plan;
  plan.of_gpu[1].freeze_device = true;
  cudaStream_t streams[2];
  for (int device : {0, 1}) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    REQUIRE(cudaStreamCreate(&streams[device]) == cudaSuccess);
  }
  {
    PlantedFaults planted(plan);
    for (cudaStream_t stream : streams) {
      cudaLaunchHostFunc(
          stream, [](void*) {}, nullptr);
    }
    REQUIRE(cudaStreamSynchronize(streams[0]) == cudaSuccess);
    sleep_ns(30'000'000);
    REQUIRE(cudaStreamQuery(streams[1]) == cudaErrorNotReady);
  }
  REQUIRE(cudaStreamSynchronize(streams[1]) == cudaSuccess);
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  cudaSetDevice(0);
}

TEST_CASE("A kernel suffers the faults of the GPU it runs on", "[control]") {
  FaultPlan plan;
  plan.of_gpu[1].clock_slowdown = 8.0;
  PlantedFaults planted(plan);
  REQUIRE(run_computing_kernel().sleeps == 0);
  work_for_gpu(1);
  const KernelRun slow = run_computing_kernel();
  work_for_gpu(0);
  REQUIRE(slow.sleeps > 0);
}

TEST_CASE("The global timer is not slowed", "[control]") {
  PlantedFaults planted(slowdown(10.0));
  const uint64_t wall_ns = monotonic_ns();
  const uint64_t timer_ns = global_timer_ns();
  REQUIRE(timer_ns >= wall_ns);
  REQUIRE(timer_ns - wall_ns < 1'000'000'000);
}
