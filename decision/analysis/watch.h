// What the analyzer keeps of one communicator: its model and, for each of its analyses, a state with detectors and the
// incident that is open on it. Each analysis changes its own; the others only look.
// Threads: those of the analyzer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "decision/detect/hang.h"
#include "decision/detect/p2p.h"
#include "decision/iteration/iteration_times.h"
#include "decision/iteration/stage.h"
#include "decision/locate/finding.h"
#include "decision/locate/pair_bytes.h"
#include "decision/model/call_history.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// Of hangs (analysis/hangs.h).
struct HangState {
  HangDetector detector;

  // It stands still for too long, as its detector says.
  struct Alarm {
    bool early = false, overdue = false;
    Nanoseconds moved_ns = 0;  // last movement when it was raised: an alarm is over when anything moves
  };
  std::optional<Alarm> alarm;

  // While it is the place of a hang's cause.
  bool stuck = false;
  uint64_t incident = 0;
  RoundKey key;                // what hangs, as of the last look
  std::vector<P2pWait> calls;  // the Send and Recv calls that hang, if it is those
  Nanoseconds located_ns = 0;  // last look
  Nanoseconds moved_ns = 0;    // movement known when it was suspected

  // It stands still by what is no pause of a healthy job, here or elsewhere: its newest movement when that was found.
  std::optional<Nanoseconds> held_by_fault_ns;

  // Nobody of its job was left then: until somebody speaks again there is nothing to say.
  std::optional<Nanoseconds> over_ns;
  bool is_over(const Communicator& comm) const { return over_ns && comm.heard_ns() <= *over_ns; }

  // Of a job that hangs, as was said: the communicator of the cause. Processes connect it to that.
  std::optional<CommUid> of_hang;

  // While it waits for a cause elsewhere that has an incident; and when that ended.
  bool victim = false;
  Nanoseconds released_ns = 0;
};

// Of operations and byte counts that differ (analysis/mismatches.h).
struct MismatchState {
  explicit MismatchState(const Settings& settings) : bytes(settings) {}
  PairBytes bytes;
  uint64_t incident = 0;
  Nanoseconds seen_ns = 0;  // last mismatch or hang that follows from it
  bool by_bytes = false;    // it is about Send and Recv
};

// Of a communicator of a job that is too large to be looked at as a whole, since the last choice of where to look
// (analysis/focus.h).
struct WaitSums {
  std::vector<float> waited_ns;  // by rank: longer than the rank that all waited for
  double transfer_ns = 0;        // durations of the rank that all waited for
};

struct Watch {
  Watch(CommUid uid, const Settings& s, RankBudget& budget) : comm(uid, s, &budget), mismatch(s) {}
  Communicator comm;
  uint32_t waiting = 0;  // its number among those whose reports wait (analysis/intake.h); 0: none do
  HangState hang;
  MismatchState mismatch;
  CallHistory call_history;

  OperationMix mix;
  std::unique_ptr<IterationTimes> iterations;  // of a witness of the iteration time
  bool no_witness = false;                     // there were enough

  std::unique_ptr<WaitSums> waits;  // nullptr: nothing was reported since the last choice
};

using Watches = std::map<CommUid, std::unique_ptr<Watch>>;

}  // namespace ccld::decision
