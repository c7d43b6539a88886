// The probing frames of this process, read as an outsider reads them.
// Errors: std::runtime_error with one line that names the file or the rank. Threads: one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schemas/abi/mapped_frame.h"

namespace ccld::gpu {

struct KernelCounts {
  uint64_t sent = 0, received = 0;
};

// What the frame of a rank has of its newest kernels.
struct Shown {
  bool times = false;  // a kernel that has begun and ended
  bool steps = false;  // a connection endpoint that moved
};

class Frames {
 public:
  // All frames of this process in the folder, one for each rank.
  explicit Frames(const std::string& folder);

  size_t count() const { return frames_.size(); }
  const abi::FrameView& view(int rank) const;
  Shown shown(int rank) const;
  // Number of the newest operation of that rank.
  uint64_t newest_operation(int rank) const;
  // How NCCL ran the newest operation of that rank: "Ring Simple". Empty: the frame does not say (the probe is off).
  std::string newest_ran_as(int rank) const;
  // Steps of the kernel that carried the operation, over its channels. It must have ended.
  KernelCounts counts_of(int rank, uint64_t op_seq) const;
  // Whom the rank sent to in its newest kernel on that channel; -1: nobody, or more than one.
  int only_receiver(int rank, uint32_t channel) const;

 private:
  std::map<int, abi::MappedFrame> frames_;
};

}  // namespace ccld::gpu
