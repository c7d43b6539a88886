// One call of NCCL, as the workload makes it. Threads: plain values.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

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

size_t bytes_of(ncclDataType_t);

// Recomputes `count` for the bytes, operation and type of the call in a communicator of so many ranks.
void set_count(Call*, int rank_count);

}  // namespace ccld::workload
