// What a rank measures with: the GPU and the communicator behind it (device/), or a stand-in of tests.
// Threads: one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/validate/group.h"

namespace ccld::decision::validate {

class Hardware {
 public:
  virtual ~Hardware() = default;
  virtual Member member(int rank) const = 0;
  // NCCL's unique id for rank 0, in hexadecimal digits.
  virtual absl::StatusOr<std::string> unique_id() = 0;
  // Returns within the timeout, whatever hangs; then it must not be used again.
  virtual Answer perform(const Step&, int rank, int ranks) = 0;
};

}  // namespace ccld::decision::validate
