// Where a job stands: calls that have not ended although they should have, and who of their group is not in them.
// Pure. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "decision/import/job.h"

namespace ccld::decision::dumps {

// The oldest collective of a group that has not ended on some rank, or the sends and receives that wait for one rank.
// Ranks are places in Group::members.
struct Stall {
  size_t group = 0;
  uint64_t sequence = 0;  // 0: send or receive
  uint32_t part = 0, shape = 0;
  bool transfer = false;
  std::vector<int> waiting;    // in it
  std::vector<int> absent;     // did not call it, as their dumps show
  std::vector<int> unsure;     // may have called it: their dumps do not reach back
  std::vector<int> no_dump;    // of these nothing is known
  std::vector<int> done;       // it has ended there
  std::vector<int> unstarted;  // of those waiting: their kernels do not run, those of others do
  int64_t since_ns = 0;        // when the last of those waiting called it
  int timed_out = 0;           // calls that a watchdog has given up
  std::string missing_call;    // of transfers: "recv from rank 0", what the absent one did not call
  uint32_t frame = 0;          // where those waiting called it
};

std::vector<Stall> find_stalls(const Job&);

}  // namespace ccld::decision::dumps
