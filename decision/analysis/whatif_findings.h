// Causes of the what-if model as findings: whose they are, which communicator tells them, and in which words.
// (Beyond the paper.)
//
// Contract: pure over the model and one look at a job's graph.
#pragma once

#include <string>
#include <vector>

#include "decision/analysis/watch.h"
#include "decision/whatif/causes.h"
#include "decision/whatif/slow_steps.h"

namespace ccld::decision {

// What was found in one window of a job.
struct WhatIfLook {
  const Watches& watches;
  const whatif::Graph& graph;
  const std::vector<whatif::SlowCollectives>& collectives;
  const whatif::Explanation& explanation;
};

// The rank whose kernel it is; nullptr: not known any more.
const RankModel* rank_of(const WhatIfLook&, int node);
// Tells one process of a cluster from all others, for as long as it lives.
std::string process_text(const RankModel*);

// The communicator in which others wait for it the longest.
CommUid told_by(const whatif::Cause&, const WhatIfLook&);

// Adds its culprits, as ranks of this communicator; false: the communicator does not know it.
// `host_part`: of lateness, what is the host's; `share`: of what all causes lose.
bool add_culprits(const whatif::Cause&, const WhatIfLook&, const Communicator&, double host_part, double share,
                  Finding&);

// Of findings whose causes are complete: class, victims, next step. `late`, `network`: of what kinds the causes are.
void describe(const WhatIfLook&, const Communicator&, bool late, bool network, Finding&);

// Of findings whose culprits are final: confidence, and what the job would gain without them. `iteration_ns`: how long
// one takes; 0: not known. `shared_ns`: of what gain the shares of the culprits are parts.
void weigh(const whatif::Explanation&, double iteration_ns, double shared_ns, Finding&);

}  // namespace ccld::decision
