// Reads the parts of the process's and its host's health, each as often as its cost allows.
//
// Contract
//   A part is read every `period_ns`, but never takes more than `part_share_ppm` of a core (times its share_factor) on
//   average: one that costs
//   more processor time is read less often (a process of a thousand threads, ports whose counters ask the firmware).
//   Up to an eighth of the period sooner or later, at random: what comes and goes in a rhythm is not met at the same
//   point of it each time.
//   Parts that are host-wide are read only while this process speaks for its host; otherwise they have no values.
//
// Threads: one.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/health/part.h"

namespace ccld::probe {

struct SamplerOptions {
  uint64_t period_ns = ns_per_s;
  uint32_t part_share_ppm = 20;  // eight parts and waking up stay below 0.03 % of a core
  uint64_t period_max_ns = 600 * ns_per_s;
};

class Sampler {
 public:
  Sampler(const SamplerOptions& options, const Clock& clock)
      : options_(options), clock_(clock), random_(clock.now().monotonic_ns) {}
  // Opens the part; one that has nothing to read is dropped. Lines about what does not exist go to `absent`.
  void add(std::unique_ptr<HealthPart> part, bool host_wide, std::vector<std::string>* absent);
  // Reads what is due. Returns whether anything was read.
  bool tick(bool speaks_for_host);
  // When the next part is due.
  uint64_t next_due_ns() const;
  // The newest values of all parts.
  Metrics values() const;
  unsigned source_count() const;

 private:
  struct Entry {
    std::unique_ptr<HealthPart> part;
    bool host_wide;
    uint64_t due_ns = 0;
    Metrics values;
  };
  const SamplerOptions options_;
  const Clock& clock_;
  std::minstd_rand random_;
  std::vector<Entry> entries_;
};

// The parts of a real process and host.
void add_all_parts(Sampler* sampler, const HealthRoots& roots, std::vector<std::string>* absent);

}  // namespace ccld::probe
