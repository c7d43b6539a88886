// How long threads of the process were ready to run and waited for a processor: the second number of schedstat, "time
// spent waiting on a runqueue" (Documentation/scheduler/sched-stats.rst).
//
// RunDelayPart: the main thread and NCCL's progress threads, whose files stay open, so that they are read every period.
// ThreadsDelayPart: the sum over all threads, at most `threads_max` of them, read less often the more there are.
// Kernels that do not count give no value.
#pragma once

#include <dirent.h>

#include <map>
#include <memory>
#include <optional>

#include "probe/health/kernel_file.h"
#include "probe/health/part.h"

namespace ccld::probe {

class RunDelayPart final : public HealthPart {
 public:
  explicit RunDelayPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return main_.is_open() ? 1 : 0; }

 private:
  struct Proxy {
    KernelFile file;
    uint64_t delay_ns = 0;  // when it was last read
  };
  std::string path_of(pid_t thread) const;
  std::optional<uint64_t> read_proxy(pid_t thread, Proxy& proxy) const;

  const HealthRoots roots_;
  KernelFile main_;
  std::map<pid_t, Proxy> proxies_;
  uint64_t proxy_delay_ns_ = 0;  // the mean of the threads that there were at each time
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

// nullopt: the kernel does not count.
std::optional<uint64_t> run_delay_ns(std::string_view schedstat);

}  // namespace ccld::probe
