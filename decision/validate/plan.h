// The whole validation, as its coordinator runs it: connect, check the GPUs, test the links, test slow ones alone and
// across, judge.
//
// Contract
//   Whatever is suspect after a step is measured again with everybody, confirming_runs times in all: only what is slow
//   every time is named. Whatever is too noisy likewise, runs_max times in all. The number of steps does not depend on
//   the number of ranks. It ends early, and says why, when a rank does not answer or NCCL fails.
// Threads: one.
#pragma once

#include <string>

#include "decision/validate/group.h"
#include "decision/validate/outcome.h"

namespace ccld::decision::validate {

constexpr int confirming_runs = 3, runs_max = 8;
// Rounds of tests of slow links alone: each may show that others are slow. A healthy job was seen to need a second one;
// one more is margin. The bound keeps the number of steps independent of the number of ranks.
constexpr int lone_rounds_max = 3;

struct PlanOptions {
  std::string id;  // NCCL's unique id
  std::string job;
  Past past;
  Thresholds thresholds;
  int repetitions = 10;
  double timeout_s = 60;  // for texts
};

// `out.now_ns` is left to the caller.
void run_plan(Group&, const PlanOptions&, Outcome& out);

// What --save keeps: rows that are healthy, or have nothing to be compared with.
Past past_of(const Outcome&);

}  // namespace ccld::decision::validate
