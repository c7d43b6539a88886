// Calls of one number that are not the same on all ranks, and transfers whose ends disagree: with or without a hang.
// Pure. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "decision/import/job.h"
#include "decision/model/verdict.h"

namespace ccld::decision::dumps {

// The first of a group; what follows it is shifted or a consequence.
struct Difference {
  struct Rank {
    int member = 0;
    Condition condition = Condition::call_differs;
    std::string reason;
    uint32_t frame = 0;
  };
  size_t group = 0;
  uint64_t sequence = 0;        // 0: of send and receive
  uint32_t shape = 0;           // of the majority
  std::vector<Rank> differing;  // the minority; empty: there is none, and `candidates` has the ranks of all sides
  std::vector<int> candidates;
  std::string title;                               // where nobody differs from a majority: what it is about
  std::vector<std::pair<uint32_t, size_t>> sides;  // shapes, and by how many ranks they were called
  int64_t since_ns = 0;
  bool hangs = false;  // a call of that number has not ended
};

std::vector<Difference> find_differences(const Job&);

}  // namespace ccld::decision::dumps
