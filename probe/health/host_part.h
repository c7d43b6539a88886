// The control group that the process runs in (CgroupPart, version 2) and its host: pressure, load and memory
// (HostPart).
#pragma once

#include "probe/health/kernel_file.h"
#include "probe/health/part.h"

namespace ccld::probe {

class CgroupPart final : public HealthPart {
 public:
  explicit CgroupPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override;

 private:
  const HealthRoots roots_;
  KernelFile cpu_stat_, memory_current_, memory_max_, memory_events_;
};

class HostPart final : public HealthPart {
 public:
  explicit HostPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override;

 private:
  const HealthRoots roots_;
  KernelFile cpu_, memory_, io_, load_, meminfo_;
  long processors_ = 1;
};

}  // namespace ccld::probe
