// What the analyzer keeps of one communicator: its model and, for each of its analyses, a state with detectors and the
// incident that is open on it. Each analysis changes its own; the others only look.
// Threads: those of the analyzer.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "decision/analysis/slow_judge.h"
#include "decision/analysis/slow_pairs_judge.h"
#include "decision/detect/hang.h"
#include "decision/detect/p2p.h"
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

// Of slowness (analysis/slowness.h).
struct SlowState {
  explicit SlowState(const Settings& settings) : slow(settings), slow_p2p(settings) {}
  SlowJudge slow;
  SlowPairsJudge slow_p2p;
  uint64_t slow_incident = 0;
  SlowRole slow_role = SlowRole::owner;
  bool slow_by_p2p = false;  // the newest report is about Send and Recv
  SlowReport slow_report;    // the newest
  uint64_t slow_streak() const { return std::max(slow.streak(), slow_p2p.streak()); }
  const Finding& slow_cause() const { return slow.streak() > 0 ? slow.cause() : slow_p2p.cause(); }
  double slow_lost_share() const { return slow.streak() > 0 ? slow.lost_share() : slow_p2p.lost_share(); }
};

struct Watch : SlowState {
  Watch(CommUid uid, const Settings& s, RankBudget& budget) : SlowState(s), comm(uid, s, &budget), mismatch(s) {}
  Communicator comm;
  HangState hang;
  MismatchState mismatch;

  OperationMix mix;
  std::unique_ptr<IterationTimes> iterations;  // of a witness of the iteration time
  bool no_witness = false;                     // there were enough
};

using Watches = std::map<CommUid, std::unique_ptr<Watch>>;

}  // namespace ccld::decision
