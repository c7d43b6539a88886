// What an outside reader sees of a frame while the device writes it.
//
// Torn reads: a second thread looks at all frames of this process while operations run. What it accepts must be whole,
// by what is known of equal operations that follow one another: on a channel, token minus run is the same for every
// kernel, so are its steps; a kernel ends after it has begun and before the next one begins.
// Visibility: one operation after the other; how long a look takes to see that a kernel has ended, once its stream says
// so.
//
// Errors: std::runtime_error. Units: microseconds. Threads: check_visibility() starts and ends its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/gpu/ranks.h"

namespace ccld::gpu {

struct Visibility {
  uint64_t looks = 0;
  uint64_t refused = 0;            // reads in the middle of a store: asked again
  uint64_t accepted = 0;           // rows and connection endpoints
  uint64_t running = 0;            // looks at a kernel that had begun and not ended
  uint64_t skipped = 0;            // kernels whose rows were overwritten before they were looked at
  std::vector<std::string> wrong;  // the first few
  uint64_t wrong_total = 0;

  uint64_t operations = 0;  // of the second kind
  std::vector<double>
      ends_us;  // from the end of the stream to a look that saw the kernel's; below 0: it was seen before
};

// `folder`: where the probe puts its frames.
Visibility check_visibility(Ranks&, const Call&, int operations, const std::string& folder);

}  // namespace ccld::gpu
