// What the analyzer keeps of one communicator: its model, its detectors, and which incidents are open on it.
// Threads: those of the analyzer.
#pragma once

#include <map>
#include <memory>

#include "decision/detect/hang.h"
#include "decision/detect/slow.h"
#include "decision/locate/finding.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

struct Watch {
  Watch(CommUid uid, const Settings& s) : comm(uid, s), slow(s) {}
  Communicator comm;
  HangDetector hang_detector;
  SlowDetector slow;

  uint64_t hang_incident = 0;
  Finding hang_finding;  // of the last look, valid while stuck
  bool stuck = false;
  bool stuck_in_p2p = false;         // and it is in Send and Recv
  Nanoseconds located_ns = 0;        // last look
  Nanoseconds moved_at_hang_ns = 0;  // movement known when it was suspected
  bool hang_confirmed = false;

  uint64_t mismatch_incident = 0;
  Nanoseconds mismatch_ns = 0;  // last mismatch or hang that follows from it
  uint64_t mismatches = 0;

  uint64_t slow_incident = 0;
};

using Watches = std::map<CommUid, std::unique_ptr<Watch>>;

}  // namespace ccld::decision
