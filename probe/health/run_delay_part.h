// How long threads of the process were ready to run and waited for a processor: the second number of schedstat, "time
// spent waiting on a runqueue" (Documentation/scheduler/sched-stats.rst), with waits that last (thread_run.h).
//
// RunDelayPart: the main thread and NCCL's progress threads, whose files stay open, so that they are read every period,
// with how long they ran; for how long one of the progress threads, and one of those that stand for a GPU, hardly ran;
// and of all these threads together, how often they got a processor and how long they waited for
// it. ThreadsDelayPart: the sum over all threads, at most `threads_max` of them, read less often the more there are.
// Kernels that do not count give no value.
#pragma once

#include <dirent.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "probe/health/part.h"
#include "probe/health/process_part.h"
#include "probe/health/thread_run.h"

namespace ccld::probe {

class RunDelayPart final : public HealthPart {
 public:
  // `gpu_threads`: those that stand for a GPU (ThreadsPart); nullptr: none.
  explicit RunDelayPart(const HealthRoots& roots, GpuThreads gpu_threads = nullptr)
      : roots_(roots), gpu_threads_(std::move(gpu_threads)) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  // A wait is compared with what happened in the same seconds. Two files of some ten threads take 100 us.
  uint32_t share_factor() const override { return 5; }
  unsigned source_count() const override { return main_.run.is_open() ? 1 : 0; }

 private:
  struct Thread {
    ThreadRun run;
    // When it was last read.
    uint64_t delay_ns = 0, ran_ns = 0;
    uint64_t turns = 0, turn_waits_ns = 0;
  };
  std::optional<ThreadRun::Look> look(pid_t thread, Thread&, uint64_t elapsed_ns) const;
  void count_turns(const ThreadRun::Look&, Thread&);

  const HealthRoots roots_;
  const GpuThreads gpu_threads_;
  Thread main_;
  std::map<pid_t, Thread> proxies_, of_gpus_;
  uint64_t read_ns_ = 0;
  uint64_t proxy_delay_ns_ = 0, proxy_ran_ns_ = 0;  // the mean of the threads that there were at each time
  uint64_t starved_ns_ = 0, gpu_starved_ns_ = 0;
  uint64_t turns_ = 0, turn_waits_ns_ = 0;
};

class ThreadsDelayPart final : public HealthPart {
 public:
  static constexpr unsigned threads_max = 256;
  explicit ThreadsDelayPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return folder_ != nullptr ? 1 : 0; }

 private:
  const HealthRoots roots_;
  std::unique_ptr<DIR, int (*)(DIR*)> folder_{nullptr, closedir};
  std::map<std::string, uint64_t> delay_ns_;  // by thread, when it was last read
  uint64_t sum_ns_ = 0;
};

}  // namespace ccld::probe
