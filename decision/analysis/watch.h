// What the analyzer keeps of one communicator: its model, its detectors, and which incidents are open on it.
// Threads: those of the analyzer.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "decision/detect/hang.h"
#include "decision/detect/p2p.h"
#include "decision/detect/slow.h"
#include "decision/detect/slow_p2p.h"
#include "decision/iteration/iteration_times.h"
#include "decision/iteration/stage.h"
#include "decision/locate/finding.h"
#include "decision/locate/pair_bytes.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// How a communicator stands to the incident of slowness that it holds.
enum class SlowRole : uint8_t {
  owner,   // it is told in terms of this communicator
  same,    // this communicator blames the same cause
  victim,  // this communicator is late because of it
};

struct Watch {
  Watch(CommUid uid, const Settings& s, RankBudget& budget) : comm(uid, s, &budget), slow(s), slow_p2p(s), pair_bytes(s) {}
  Communicator comm;
  HangDetector hang_detector;
  SlowDetector slow;
  SlowPairsDetector slow_p2p;
  PairBytes pair_bytes;

  // It stands still for too long, as its detector says.
  struct Alarm {
    bool early = false, overdue = false;
    Nanoseconds moved_ns = 0;  // last movement when it was raised: an alarm is over when anything moves
  };
  std::optional<Alarm> alarm;

  // While it is the place of a hang's cause.
  bool stuck = false;
  OperationMix mix;
  std::unique_ptr<IterationTimes> iterations;  // of a witness of the iteration time
  bool no_witness = false;                     // there were enough

  uint64_t hang_incident = 0;
  RoundKey hang_key;                // what hangs, as of the last look
  std::vector<P2pWait> hang_calls;  // the Send and Recv calls that hang, if it is those
  Nanoseconds located_ns = 0;        // last look
  Nanoseconds moved_at_hang_ns = 0;  // movement known when it was suspected
  bool hang_confirmed = false;

  // It stands still by what is no pause of a healthy job, here or elsewhere: its newest movement when that was found.
  std::optional<Nanoseconds> held_by_fault_ns;

  // While it waits for a cause elsewhere that has an incident; and when that ended.
  bool victim = false;
  Nanoseconds released_ns = 0;

  uint64_t mismatch_incident = 0;
  Nanoseconds mismatch_ns = 0;  // last mismatch or hang that follows from it
  uint64_t mismatches = 0;
  bool mismatch_by_bytes = false;  // it is about Send and Recv

  uint64_t slow_incident = 0;
  SlowRole slow_role = SlowRole::owner;
  bool slow_by_p2p = false;  // the newest report is about Send and Recv
  SlowReport slow_report;    // the newest
  uint64_t slow_streak() const { return std::max(slow.streak(), slow_p2p.streak()); }
  const Finding& slow_cause() const { return slow.streak() > 0 ? slow.cause() : slow_p2p.cause(); }
  double slow_lost_share() const { return slow.streak() > 0 ? slow.lost_share() : slow_p2p.lost_share(); }
};

using Watches = std::map<CommUid, std::unique_ptr<Watch>>;

}  // namespace ccld::decision
