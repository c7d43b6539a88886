#include "nccl/hooks/gpu_frames.h"

#include <cuda_runtime.h>
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "nccl/hooks/own_log.h"
#include "schemas/abi/frame.h"

namespace ccld::hooks {
namespace {

// CUDA forbids some calls to every thread while any stream is being captured; these are as harmless to a capture as
// NCCL's own.
class CaptureAllowed {
 public:
  CaptureAllowed() { changed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }
  ~CaptureAllowed() {
    if (changed_) (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  CaptureAllowed(const CaptureAllowed&) = delete;
  CaptureAllowed& operator=(const CaptureAllowed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_ = false;
};

// Whether it went well; a refusal is not NCCL's error.
bool done(cudaError_t error, const char* what, std::string* refusal) {
  if (error == cudaSuccess) return true;
  *refusal = std::string(what) + ": " + cudaGetErrorString(error);
  (void)cudaGetLastError();
  return false;
}

char* device_address_of(void* memory, std::string* refusal) {
  void* address = nullptr;
  if (!done(cudaHostGetDevicePointer(&address, memory, 0), "cudaHostGetDevicePointer", refusal)) return nullptr;
  return static_cast<char*>(address);
}

struct Spare {
  probe::FrameMemory* memory;
  bool allocated;
};

void give_back(const Spare& spare) {
  void* address = probe::frame_memory_address(spare.memory);
  if (!spare.allocated && cudaHostUnregister(address) != cudaSuccess) (void)cudaGetLastError();
  probe::frame_memory_release(spare.memory);  // only now: CUDA must let go of pages before they are unmapped
  if (spare.allocated && cudaFreeHost(address) != cudaSuccess) (void)cudaGetLastError();
}

// No call of CUDA is made under its lock.
class SpareFrames {
 public:
  // The smallest intact one that is large enough; `memory` is null if there is none. The taker's communicator lives
  // from now on. Of a file that was truncated the GPU knows pages that nobody else sees: such memory waits to be given
  // back.
  Spare take(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++alive_;
    auto best = spares_.end();
    for (auto it = spares_.begin(); it != spares_.end(); ++it) {
      const size_t size = probe::frame_memory_size(it->memory);
      if (size < bytes || (best != spares_.end() && size >= probe::frame_memory_size(best->memory))) continue;
      if (probe::frame_memory_intact(it->memory)) best = it;
    }
    if (best == spares_.end()) return {nullptr, false};
    const Spare taken = *best;
    spares_.erase(best);
    return taken;
  }

  // A communicator ends. Its memory may be null.
  void put(const Spare& spare) {
    std::lock_guard<std::mutex> lock(mutex_);
    put_locked(spare);
  }

  // Likewise, but what ends is only its frame: it lives on, and nobody will know when its kernels are over.
  void put_unwatched(const Spare& spare) {
    std::lock_guard<std::mutex> lock(mutex_);
    unwatched_ = true;
    put_locked(spare);
  }

  // One that nobody needs and whose return waits for nobody.
  bool take_needless(Spare* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (alive_ != 0 || unwatched_ || spares_.empty()) return false;
    *out = spares_.back();
    spares_.pop_back();
    return true;
  }

 private:
  void put_locked(const Spare& spare) {
    --alive_;
    if (spare.memory != nullptr) spares_.push_back(spare);
  }

  std::mutex mutex_;
  std::vector<Spare> spares_;
  unsigned alive_ = 0;
  bool unwatched_ = false;
};

SpareFrames& spare_frames() {
  static auto* const frames = new SpareFrames;  // never destroyed: communicators may end at the very end
  return *frames;
}

// Whether CUDA knows the memory from now on.
bool pin_new_memory(GpuFrame* frame, std::string* refusal) {
  void* memory = probe::frame_memory(frame->comm);
  const size_t bytes = probe::frame_size(frame->comm);
  constexpr unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
  if (done(cudaHostRegister(memory, bytes, flags), "cudaHostRegister", refusal)) return true;
  void* allocated = nullptr;
  std::string refusal_too;
  if (!done(cudaHostAlloc(&allocated, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc",
            &refusal_too)) {
    *refusal += "; " + refusal_too;
    return false;
  }
  static std::once_flag said;
  std::call_once(said,
                 [&] { warn("frames are kept without a file, where nobody but this process sees them: " + *refusal); });
  probe::comm_move(frame->comm, allocated);
  frame->allocated = true;
  return true;
}

}  // namespace

bool make_gpu_frame(const probe::CommSetup& wanted, GpuFrame* out) {
  CaptureAllowed allowed;
  const Spare spare = spare_frames().take(abi::frame_bytes(wanted.channel_count));
  probe::CommSetup setup = wanted;
  setup.spare = spare.memory;
  GpuFrame frame;
  frame.comm = probe::comm_create(setup);
  if (frame.comm == nullptr) {  // which has been said
    spare_frames().put_unwatched(spare);
    return false;
  }
  frame.allocated = spare.allocated;
  std::string refusal;
  const bool pinned = spare.memory != nullptr || pin_new_memory(&frame, &refusal);
  if (pinned) frame.device_address = device_address_of(probe::frame_memory(frame.comm), &refusal);
  if (frame.device_address != nullptr) {
    *out = frame;
    return true;
  }
  static std::once_flag said;
  std::call_once(said, [&] { warn("a communicator is not watched: " + refusal); });
  probe::comm_end(frame.comm, abi::CommState::init_failed);
  probe::comm_unwatched();
  probe::FrameMemory* memory = probe::comm_retire(frame.comm);
  if (!pinned) probe::frame_memory_release(memory);
  spare_frames().put_unwatched({pinned ? memory : nullptr, frame.allocated});
  return false;
}

void retire_unwatched_gpu_frame(probe::Comm* comm, bool allocated) {
  probe::comm_unwatched();
  spare_frames().put_unwatched({probe::comm_retire(comm), allocated});
}

void retire_gpu_frame(probe::Comm* comm, bool allocated) {
  CaptureAllowed capture_allowed;
  spare_frames().put({probe::comm_retire(comm), allocated});
  Spare needless{};
  while (spare_frames().take_needless(&needless)) give_back(needless);
}

}  // namespace ccld::hooks
