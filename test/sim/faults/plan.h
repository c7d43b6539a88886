// Plants a fault: changes the conditions of a scenario, and writes down what was planted.
#pragma once

#include "test/sim/scenario.h"

namespace ccld::sim {

// Also sets when the job is over. False: such a fault cannot happen in this job.
bool plan_fault(FaultKind, Stream&, Scenario&);

}  // namespace ccld::sim
