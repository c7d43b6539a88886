// Tests the hardware of this process while the job runs, on the service's word: a thread that runs the validation
// library and holds the training threads for it (hold.h).
//
// Contract
//   Only with NCCL_PROBE_VALIDATE=1. A library that cannot be loaded is one warning, and nothing is ever held. A new
//   wish ends the test that runs. At the end of the process no thread holds any more, and the test is waited for only
//   for a moment.
//
// Threads: all functions, the diagnostic thread; validation_stop() also any other.
#pragma once

#include "probe/control/control.h"

namespace ccld::probe {

// Loads the library, so that what is wrong with it is said when the job starts.
void validation_prepare();
// `idle_at`: as Hold::wait wants it.
void validation_start(const ValidationWish&, uint64_t (*idle_at)());
void validation_stop();

}  // namespace ccld::probe
