// What is let go of first where there is no room for all, and what was let go of or not taken in for that reason. Plain data.
#pragma once

#include <cstdint>

namespace ccld::decision {

// Of a communicator to the analysis, the least first.
enum class Worth : uint8_t {
  claimed,  // not all ranks have spoken: a claim costs whoever makes it nothing
  at_rest,  // whole, and nothing is in flight; or what was is not repeated, as whoever is there does
  at_work,
  needed,  // an open incident is about it
};

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
