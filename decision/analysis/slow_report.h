// What is said of a communicator's slowness at the end of a window.
#pragma once

#include "decision/locate/finding.h"

namespace ccld::decision {

enum class SlowEvent { none, suspect, confirm, resolve };

struct SlowReport {
  SlowEvent event = SlowEvent::none;
  Finding finding;
  Nanoseconds onset_ns = 0;
  double lost_ns = 0;  // per second of the windows it speaks of
};

}  // namespace ccld::decision
