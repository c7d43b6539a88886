// Which operation every rank calls in which round: the same answer in all ranks, from the options alone.
//
// Threads: plain values, no shared state. Errors: names are checked when the options are parsed.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "test/support/workload/options.h"
#include "test/support/workload/phases.h"
#include "test/support/workload/traffic_call.h"

namespace ccld::workload {

std::set<std::string> operation_choices();  // with "mix"
std::set<std::string> reduction_choices();
std::set<std::string> datatype_choices();

// Throw std::invalid_argument for a name that is not among the choices.
Operation operation_named(const std::string&);
ncclDataType_t datatype_named(const std::string&);
ncclRedOp_t reduction_named(const std::string&);

// What irregular traffic may do under these options.
PhaseLimits phase_limits(const Options&);

class Traffic {
 public:
  explicit Traffic(const Options&);

  // Rounds are counted from 1.
  Call call(uint64_t round) const;
  // What the rank does before it; irregular traffic only.
  std::optional<Behaviour> behaviour(uint64_t round) const;
  // Rounds of one pass over all sizes.
  uint64_t rounds_per_pass() const;
  // The largest buffer any call needs, the calls that faults make of it included.
  uint64_t buffer_bytes_max() const;
  int rank_count() const { return options_.rank_count; }

 private:
  Options options_;
  std::optional<Phases> phases_;
  std::vector<uint64_t> sizes_;
  std::vector<Operation> operations_;
};

}  // namespace ccld::workload
