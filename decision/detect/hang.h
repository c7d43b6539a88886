// When a communicator is suspected to hang, and when that is certain.
// (Paper, section 4.2.1, hang anomaly detection: a duration threshold with barriers dropped. Here: movement instead of
// duration, a threshold that learns the communicator's own pauses, and a longer one for barriers instead of none.)
//
// Contract: time is injected; one detector per communicator. O(1) while things move; O(ranks) when nothing has moved
// for a while.
#pragma once

#include <optional>

#include "decision/detect/hang_view.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

class HangDetector {
 public:
  // The view, if the communicator is to be suspected now (it says whether that is certain already), or if it is early but
  // hard evidence would count. Call whenever time or telemetry has advanced. Certainty comes after hang_confirm_s, and
  // not before twice the time of suspicion.
  std::optional<HangView> check(const Communicator&, const ProcessTable&, const Settings&, Nanoseconds now_ns);

  // How long such a standstill is borne before it is suspicious. Awaited: somebody waits, here or elsewhere.
  Nanoseconds timeout_ns(const Communicator&, const HangView&, const Settings&, bool awaited) const;

  // The standstill that goes on is a fault: no timeout is learnt from it.
  void forget_pause() { pause_ns_ = 0; }
  Nanoseconds longest_pause_ns() const { return longest_pause_ns_; }

 private:
  Nanoseconds looked_ns_ = 0;  // when ranks were last looked at
  Nanoseconds seen_moved_ns_ = 0;
  Nanoseconds pause_ns_ = 0;  // of the standstill that goes on
  bool pause_is_warmup_ = false;
  Nanoseconds longest_warmup_pause_ns_ = 0;  // of the first operations: happens once, so the others count
  Nanoseconds longest_pause_ns_ = 0;         // that ended by itself
};

}  // namespace ccld::decision
