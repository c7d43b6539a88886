// Plants a fault: changes the conditions of a scenario, and writes down what was planted.
#pragma once

#include "test/sim/scenario.h"

namespace ccld::sim {

// What kind of slow fault it is, beside its kind.
struct Slowness {
  bool from_start = false;   // before the first iteration: the job never was faster
  bool in_pipeline = false;  // S2: only Send and Recv use what is slow
  bool mild = false;         // iterations take a little longer
};

// Also sets when the job is over. False: such a fault cannot happen in this job.
bool plan_fault(FaultKind, Slowness, Stream&, Scenario&);

}  // namespace ccld::sim
