// When a communicator hangs by the rules of the paper (section 4.2.1): an operation lasts longer than a threshold, and
// barriers are dropped.
//
// Contract: time injected; one detector per communicator.
#pragma once

#include <optional>

#include "decision/detect/hang_view.h"

namespace ccld::decision {

class PaperHangDetector {
 public:
  std::optional<HangView> check(const Communicator&, const ProcessTable&, const Settings&, Nanoseconds now_ns);

 private:
  Nanoseconds looked_ns_ = 0;
};

}  // namespace ccld::decision
