// Memory of the service, and its limit. Plain data.
#pragma once

#include <cstdint>

namespace ccld::decision::report {

struct MemoryStatus {
  uint64_t used_bytes = 0;  // resident
  uint64_t max_bytes = 0;   // --memory-max; 0: none
  bool admits_new = true;   // communicators and processes that are not known yet
};

}  // namespace ccld::decision::report
