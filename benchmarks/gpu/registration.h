// Which ways CUDA lets a GPU write into host memory, and whether others see what it writes there: what a probing frame
// is made of. Sandboxed containers and confidential computing refuse some of them.
// Errors: a way that is refused is a result, not an error. Threads: one.
#pragma once

#include <string>
#include <vector>

namespace ccld::gpu {

struct MemoryWay {
  std::string name;
  bool works = false;  // CUDA took the memory, and what the device wrote is there for an outside reader
  std::string refusal;
  double taken_us = 0, given_back_us = 0;  // what CUDA took for it
};

// A file in `folder` that is registered, as frames are; memory without a file that is registered; memory of CUDA's own.
std::vector<MemoryWay> try_memory(const std::string& folder);

}  // namespace ccld::gpu
