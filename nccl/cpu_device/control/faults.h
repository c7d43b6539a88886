// The device faults in force in this process, and what device work does about them.
//
// Contract
//   A thread that does device work says first for which GPU; everything below is about that one.
//   Device work calls these functions at its scheduling points; without a fault they cost one relaxed load.
//   %globaltimer is never slowed: a slow device is slow, its clock is right.
//
// Threads
//   set_faults() is for the control file's thread (and tests); everything else is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "nccl/cpu_device/control/fault_plan.h"

namespace ccld::cpu_device {

void set_faults(const FaultPlan&);

// True while any fault is planted.
extern std::atomic<bool> faults_planted;

// The calling thread works for this GPU of the machine from now on (GPU 0 until it says so).
void work_for_gpu(unsigned gpu);
unsigned gpu_worked_for();

double clock_slowdown();

// Block until nothing freezes the caller any more.
void wait_while_block_frozen(unsigned block_index);
void wait_while_device_frozen();

// Keeps the calling thread "computing" for `device_ns` of device time without using the processor: longer when the
// clock is slowed, without end while the device is frozen. Changes of the plan take effect within a few milliseconds.
void spend_device_time(uint64_t device_ns);

// Stretches the processor time that one thread of device work uses by the slowdown in force.
class SlowClock {
 public:
  // The thread starts a piece of device work.
  void start();
  // Called often from within the work; sleeps off what has accumulated once it is worth a sleep.
  void account();
  // The work ends: sleeps off the rest.
  void settle();
  // Since start().
  uint64_t slept_ns() const { return slept_ns_; }

 private:
  void charge();
  void pay();

  bool running_ = false;
  uint64_t charged_until_cpu_ns_ = 0;
  uint64_t next_look_ns_ = 0;
  uint64_t slept_ns_ = 0;
  double debt_ns_ = 0;  // negative: slept too long already
};

}  // namespace ccld::cpu_device
