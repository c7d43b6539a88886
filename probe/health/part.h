// One part of what the health thread looks at: a group of values that are read together.
//
// Contract
//   open() looks for the part's sources and adds one line to `absent` for each that does not exist; it is called once.
//   read() appends the values that exist now; what cannot be read this time gives nothing. Nothing here fails or
//   throws. Units and ids: schemas/abi/metrics.h.
//
// Threads: the health thread.
#pragma once

#include <string>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/transport/messages.h"

namespace ccld::probe {

using Metrics = std::vector<MetricValue>;

inline void add_metric(Metrics* out, abi::MetricId id, int64_t value, const std::string& instance = {}) {
  out->push_back({id, instance, value});
}

class HealthPart {
 public:
  virtual ~HealthPart() = default;
  // False: there is nothing to read at all.
  virtual bool open(std::vector<std::string>* absent) = 0;
  virtual void read(Instant now, Metrics* out) = 0;
  // How much more processor time than others it may take, to be read every period: what it tells is worth it.
  virtual uint32_t share_factor() const { return 1; }
  // Sources that open() found.
  virtual unsigned source_count() const = 0;
};

// Where the kernel shows its state; tests put a tree of their own there.
struct HealthRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

}  // namespace ccld::probe
