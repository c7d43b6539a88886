// Network ports: InfiniBand's of /sys/class/infiniband (state, rate, counters, RoCE's hardware counters) and the
// interfaces of /sys/class/net but loopback. Those of hardware come first, in the order of their numbers, and are
// `ports_max` at most; virtual ones (of containers, functions of a shared device) only while there are few. The list is
// made again every `list_again_ns`, since ports appear.
#pragma once

#include "probe/health/kernel_file.h"
#include "probe/health/part.h"

namespace ccld::probe {

class PortPart final : public HealthPart {
 public:
  // Machines with 32 network devices are common. A port keeps up to 12 files open, and a process has 1024.
  static constexpr unsigned ports_max = 48, few_ports = 16;
  static constexpr uint64_t list_again_ns = 60 * ns_per_s;

  explicit PortPart(const HealthRoots& roots) : roots_(roots) {}
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return static_cast<unsigned>(ports_.size()); }

 private:
  struct Counter {
    abi::MetricId id;
    KernelFile file;
    int64_t scale;
  };
  struct Port {
    std::string instance;
    bool infiniband;
    KernelFile state, rate;
    std::vector<Counter> counters;
  };
  // How many ports of hardware found no room.
  size_t list_ports();
  void add_infiniband(const std::string& folder, const std::string& instance);
  void add_interface(const std::string& folder, const std::string& instance);

  const HealthRoots roots_;
  std::vector<Port> ports_;
  uint64_t listed_ns_ = 0;
};

}  // namespace ccld::probe
