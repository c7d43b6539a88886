// What every rank loop needs of NCCL: errors as exceptions, the job's id, one call. Units: milliseconds.
// Errors: std::runtime_error with one line. Threads: any.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "test/support/workload/options.h"
#include "test/support/workload/traffic_call.h"

namespace ccld::workload {

void check(ncclResult_t, const char* what);
void check(cudaError_t, const char* what);
#define CCLD_CHECK(call) ::ccld::workload::check((call), #call)

// Rank 0 makes the id and writes it to the id file, the others wait for it there.
ncclUniqueId exchange_id(const Options&);

// Calls the collective; does not wait.
void issue(const Call&, const void* send, void* recv, ncclComm_t, cudaStream_t);

void sleep_ms(double ms);

}  // namespace ccld::workload
