#include "benchmarks/gpu/ranks.h"

#include <algorithm>

namespace ccld::gpu {

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  const std::string reason = ncclGetLastError(nullptr);
  const std::string text = std::string(what) + ": " + ncclGetErrorString(result) + " (" + reason + ")";
  if (result == ncclInvalidUsage && reason.find(" leaves '") != std::string::npos) throw LeftOut(reason);
  throw std::runtime_error(text);
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

Ranks::Ranks(int count) : ranks_(static_cast<size_t>(count)) {
  CCLD_GPU_CHECK(cudaGetDeviceCount(&devices_));
  if (devices_ == 0) throw std::runtime_error("cudaGetDeviceCount: there is no device");
  for (int r = 0; r < count; ++r) {
    ranks_[static_cast<size_t>(r)].number = r;
    ranks_[static_cast<size_t>(r)].device = r % devices_;
  }
  ncclUniqueId id;
  CCLD_GPU_CHECK(ncclGetUniqueId(&id));
  CCLD_GPU_CHECK(ncclGroupStart());
  for (Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(ncclCommInitRank(&rank.comm, count, id, rank.number));
  }
  CCLD_GPU_CHECK(ncclGroupEnd());
  for (Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
  }
}

void Ranks::reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  for (Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(cudaFree(rank.send));
    CCLD_GPU_CHECK(cudaFree(rank.recv));
    rank.send = rank.recv = nullptr;
    for (char** buffer : {&rank.send, &rank.recv}) {
      CCLD_GPU_CHECK(cudaMalloc(reinterpret_cast<void**>(buffer), bytes));
      CCLD_GPU_CHECK(cudaMemset(*buffer, 0, bytes));
    }
    CCLD_GPU_CHECK(cudaDeviceSynchronize());
  }
  bytes_ = bytes;
}

void Ranks::group(const std::function<ncclResult_t(const Rank&)>& call) {
  CCLD_GPU_CHECK(ncclGroupStart());
  ncclResult_t refused = ncclSuccess;
  for (const Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    const ncclResult_t result = call(rank);
    if (refused == ncclSuccess) refused = result;
  }
  const ncclResult_t ended = ncclGroupEnd();
  CCLD_GPU_CHECK(refused);
  CCLD_GPU_CHECK(ended);
}

void Ranks::issue(const Call& call) {
  const auto elements = static_cast<size_t>(std::max(send_count(call, count()), recv_count(call, count())));
  reserve(elements * bytes_of(call.type));
  group([&](const Rank& rank) {
    return gpu::issue(call, rank.send, rank.recv, rank.number, count(), rank.comm, rank.stream);
  });
}

void Ranks::wait() {
  for (const Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(cudaStreamSynchronize(rank.stream));
  }
}

void Ranks::end() {
  wait();
  for (const Rank& rank : ranks_) CCLD_GPU_CHECK(ncclCommDestroy(rank.comm));
  free_device_parts();
}

void Ranks::abort() {
  for (const Rank& rank : ranks_) CCLD_GPU_CHECK(ncclCommAbort(rank.comm));
  wait();
  free_device_parts();
}

void Ranks::free_device_parts() {
  for (Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(cudaStreamDestroy(rank.stream));
    CCLD_GPU_CHECK(cudaFree(rank.send));
    CCLD_GPU_CHECK(cudaFree(rank.recv));
    rank = {rank.number, rank.device, nullptr, nullptr, nullptr, nullptr};
  }
}

void Ranks::each(const std::function<void(const Rank&)>& action) {
  for (const Rank& rank : ranks_) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    action(rank);
  }
}

}  // namespace ccld::gpu
