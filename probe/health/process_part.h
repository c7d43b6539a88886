// The process: processor time, memory, faults and the state of its main thread (ProcessPart, cheap), and the states of
// all its threads (ThreadsPart, one small file for each thread, so it is read less often the more there are). On the
// way ThreadsPart finds the threads that stand for a GPU: those of the CPU device.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "probe/health/kernel_file.h"
#include "probe/health/part.h"

namespace ccld::probe {

class ProcessPart final : public HealthPart {
 public:
  explicit ProcessPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return stat_.is_open() ? 1 : 0; }

 private:
  const HealthRoots roots_;
  KernelFile stat_;
  long ticks_per_s_ = 0;
  long page_bytes_ = 0;
};

// Shared by parts that one thread reads.
using GpuThreads = std::shared_ptr<std::vector<pid_t>>;
constexpr size_t gpu_threads_max = 64;

class ThreadsPart final : public HealthPart {
 public:
  // `gpu_threads`: where those that stand for a GPU are put; nullptr: nowhere.
  explicit ThreadsPart(const HealthRoots& roots, GpuThreads gpu_threads = nullptr)
      : roots_(roots), gpu_threads_(std::move(gpu_threads)) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return folder_ != nullptr ? 1 : 0; }

 private:
  const HealthRoots roots_;
  const GpuThreads gpu_threads_;
  std::unique_ptr<DIR, int (*)(DIR*)> folder_{nullptr, closedir};
};

}  // namespace ccld::probe
