// One collective call of all ranks, as a command line names it.
// Errors: std::runtime_error that names the word. Units: elements as NCCL's API counts them; bytes where the name says
// so.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <string>

#include "test/integration/cpu_device/collectives.h"

namespace ccld::gpu {

using cpu_device_matrix::Collective;

struct Call {
  Collective collective = Collective::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  size_t count = 0;
  int root = 0;
};

Collective parse_collective(const std::string&);  // "AllReduce" ... as name_of() gives them
ncclDataType_t parse_type(const std::string&);    // "f32" ...
ncclRedOp_t parse_reduction(const std::string&);  // "sum" ...
size_t bytes_of(ncclDataType_t);

// Elements of the two buffers of a rank.
size_t send_count(const Call&, int ranks);
size_t recv_count(const Call&, int ranks);

// The call whose larger buffer has that many bytes (at least one element for each rank).
Call call_of_bytes(Collective, size_t bytes, int ranks);

// What one rank does; all ranks do it in one group.
ncclResult_t issue(const Call&, const void* send, void* recv, int rank, int ranks, ncclComm_t, cudaStream_t);

}  // namespace ccld::gpu
