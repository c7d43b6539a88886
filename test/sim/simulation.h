// Runs one scenario: job, agents, channel, the analyzer under the simulated clock, and the judge at the end.
#pragma once

#include <functional>
#include <string>

#include "decision/model/status.h"
#include "test/sim/judge/judge.h"
#include "test/sim/scenario.h"

namespace ccld::sim {

// Proof that the check can fail: the verdict must be judged wrong.
enum class Canary {
  none,
  suppressed,  // the fault was written down, and does not happen
  unrecorded,  // it happens, and nothing was written down
  other_rank,  // another culprit was written down
};

struct Result {
  Scenario scenario;
  Judgement judgement;
  Said said;
  Truth truth;
  Instant simulated = 0;
  decision::StatusView status;  // at the end
};

struct RunOptions {
  Wishes wishes;
  Canary canary = Canary::none;
  decision::Settings settings;
  size_t threads = 0;  // that take in together what arrives within a tick; 0: everything is taken in as it arrives
  // Called with every line that the analyzer hands out.
  std::function<void(const decision::Incident&, const Layout&)> on_report;
  std::function<void(const decision::Batch&)> on_batch;  // with everything that arrives
};

Result run_seed(uint64_t seed, const RunOptions&);

}  // namespace ccld::sim
