// The ranks that measure together, as the coordinator sees them: one step at a time, the same one for all.
//
// Contract
//   perform() gives the step to all ranks and returns when all have answered, or when the timeout has passed: then
//   `missing` says who did not. A rank answers within the timeout also when something hangs: it says so.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "decision/validate/samples.h"
#include "decision/validate/schedule.h"

namespace ccld::decision::validate {

// The first three are those of a running job (hold_plan.h).
enum class StepKind { progress, hold, identify, connect, gpu_check, pass, end };

struct Step {
  StepKind kind = StepKind::end;
  uint64_t before_op_seq = 0;  // hold: before that collective of the communicator
  double within_s = 0;         // hold: if it is called within this time
  std::string id;              // connect: NCCL's unique id, in hexadecimal digits
  Check check = Check::gemm;
  Pass pairs;  // pass
  int repetitions = 0;
};

struct Neighbours {
  int ring_previous = -1, ring_next = -1, tree_parent = -1;
};

enum class Holds { not_yet, holds, passed };

struct Answer {
  int rank = 0;
  std::string error;                      // one line; empty: it worked
  uint64_t operations = 0;                // progress: collectives called so far on the communicator
  double operations_per_s = 0;            // and lately
  Holds holds = Holds::not_yet;           // hold: `passed`: it had called that collective already
  std::string id;                         // identify: of rank 0, as in Step
  std::vector<Neighbours> channels;       // connect: as NCCL ordered them; empty: not known
  std::vector<Sample> samples;            // of this rank's GPU, and of links by which it sends
  std::vector<std::pair<int, int>> hung;  // links of this rank over which nothing arrived
};

struct Answers {
  std::vector<Answer> all;  // by rank
  std::vector<int> missing;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual const std::vector<Member>& members() const = 0;
  virtual Answers perform(const Step&) = 0;
};

}  // namespace ccld::decision::validate
