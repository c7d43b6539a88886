// Which operation every rank calls in which round: the same answer in all ranks, from the options alone.
//
// Threads: plain values, no shared state. Errors: names are checked when the options are parsed.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "test/support/workload/options.h"

namespace ccld::workload {

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce };

struct Call {
  Operation operation = Operation::all_reduce;
  uint64_t bytes = 0;  // of the larger of the two buffers
  uint64_t count = 0;  // as NCCL's call takes it
  ncclDataType_t datatype = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;
};

std::set<std::string> operation_choices();  // with "mix"
std::set<std::string> reduction_choices();
std::set<std::string> datatype_choices();

// Throw std::invalid_argument for a name that is not among the choices.
Operation operation_named(const std::string&);
ncclDataType_t datatype_named(const std::string&);
ncclRedOp_t reduction_named(const std::string&);
size_t bytes_of(ncclDataType_t);

class Traffic {
 public:
  explicit Traffic(const Options&);

  // Rounds are counted from 1.
  Call call(uint64_t round) const;
  // Rounds of one pass over all sizes.
  uint64_t rounds_per_pass() const;
  // The largest buffer any call needs, the calls that faults make of it included.
  uint64_t buffer_bytes_max() const;
  // Recomputes `count` for the bytes, operation and type of the call.
  void set_count(Call*) const;

 private:
  Options options_;
  std::vector<uint64_t> sizes_;
  std::vector<Operation> operations_;
};

}  // namespace ccld::workload
