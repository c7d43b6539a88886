// All ranks of a communicator in one process: their kernels share one CUDA context, so that they run at the same time
// even on one GPU. (Ranks that are processes of their own get the GPU in turns, milliseconds each.)
//
// Rank r uses device r modulo the number of devices; several ranks on one device are NCCL's to allow.
//
// Errors: std::runtime_error with one line; LeftOut when the library was built without the device function. Threads:
// one.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/gpu/call.h"

namespace ccld::gpu {

void check(ncclResult_t, const char* what);
void check(cudaError_t, const char* what);
#define CCLD_GPU_CHECK(call) ::ccld::gpu::check((call), #call)

class LeftOut : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Rank {
  int number = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  char* send = nullptr;
  char* recv = nullptr;
};

class Ranks {
 public:
  explicit Ranks(int count);
  Ranks(const Ranks&) = delete;

  int count() const { return static_cast<int>(ranks_.size()); }
  int devices() const { return devices_; }
  const std::vector<Rank>& all() const { return ranks_; }
  const Rank& operator[](int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  // Each rank's two buffers have at least that many bytes afterwards.
  void reserve(size_t bytes);
  // The call on all ranks, in one group. Does not wait.
  void issue(const Call&);
  // The same with what each rank shall call.
  void group(const std::function<ncclResult_t(const Rank&)>&);
  // Until all streams are empty.
  void wait();
  // Ends the communicators and frees streams and buffers, so that nothing stays behind. Nothing else may be called
  // afterwards.
  void end();
  // The same by ncclCommAbort: kernels that wait are ended.
  void abort();
  // With the device of that rank as the current one.
  void each(const std::function<void(const Rank&)>&);

 private:
  void free_device_parts();

  std::vector<Rank> ranks_;
  int devices_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ccld::gpu
