#include "test/support/workload/nccl_calls.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace ccld::workload {
namespace {

constexpr auto id_wait_max = std::chrono::seconds(60);

}  // namespace

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) +
                           ")");
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

ncclUniqueId exchange_id(const Options& options) {
  ncclUniqueId id;
  if (options.rank == 0) {
    CCLD_CHECK(ncclGetUniqueId(&id));
    const std::string unfinished = options.id_file + ".part";
    std::ofstream file(unfinished, std::ios::binary);
    file.write(id.internal, sizeof id.internal);
    file.close();
    if (!file || rename(unfinished.c_str(), options.id_file.c_str()) != 0) {
      throw std::runtime_error("--id-file " + options.id_file + ": cannot be written");
    }
    return id;
  }
  const auto deadline = std::chrono::steady_clock::now() + id_wait_max;
  for (;;) {
    std::ifstream file(options.id_file, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return id;
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("--id-file " + options.id_file + ": rank 0 has not written it");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void issue(const Call& call, const void* send, void* recv, ncclComm_t comm, cudaStream_t stream) {
  switch (call.operation) {
    case Operation::all_reduce:
      CCLD_CHECK(ncclAllReduce(send, recv, call.count, call.datatype, call.reduction, comm, stream));
      break;
    case Operation::all_gather: CCLD_CHECK(ncclAllGather(send, recv, call.count, call.datatype, comm, stream)); break;
    case Operation::reduce_scatter:
      CCLD_CHECK(ncclReduceScatter(send, recv, call.count, call.datatype, call.reduction, comm, stream));
      break;
    case Operation::broadcast:
      CCLD_CHECK(ncclBroadcast(send, recv, call.count, call.datatype, call.root, comm, stream));
      break;
    case Operation::reduce:
      CCLD_CHECK(ncclReduce(send, recv, call.count, call.datatype, call.reduction, call.root, comm, stream));
      break;
  }
}

void sleep_ms(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace ccld::workload
