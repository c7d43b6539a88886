// What the analysis has let go of, or not taken in, because there was no room for it. Plain data.
#pragma once

#include <cstdint>

namespace ccld::decision {

struct LetGo {
  uint64_t communicators = 0;            // forgotten
  uint64_t processes = 0;                // forgotten
  uint64_t call_histories = 0;           // of communicators that are still known
  uint64_t communicators_refused = 0;    // messages of communicators that were not known
  uint64_t processes_refused = 0;        // batches of processes that were not known
  uint64_t initializations_refused = 0;  // messages of initializations that were not known

  uint64_t total() const {
    return communicators + processes + call_histories + communicators_refused + processes_refused +
           initializations_refused;
  }
};

}  // namespace ccld::decision
