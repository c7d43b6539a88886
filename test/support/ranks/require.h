// In a rank: a call of NCCL or CUDA that fails ends the rank with one line. REQUIRE_OK wants `identity` in scope.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>

#include "test/support/ranks/job.h"

namespace ccld::ranks {

[[noreturn]] inline void fail(const RankIdentity& identity, const char* what, const char* why) {
  fprintf(stderr, "rank %d of %d: %s: %s\n", identity.rank, identity.ranks, what, why);
  _exit(1);
}

inline void require(const RankIdentity& identity, ncclResult_t result, const char* what) {
  if (result != ncclSuccess && result != ncclInProgress) fail(identity, what, ncclGetLastError(nullptr));
}

inline void require(const RankIdentity& identity, cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(identity, what, cudaGetErrorName(error));
}

}  // namespace ccld::ranks

#define REQUIRE_OK(call) ccld::ranks::require(identity, (call), #call)
