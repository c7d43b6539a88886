// Compares what was said with what was planted. The only part that sees both.
#pragma once

#include <string>
#include <vector>

#include "decision/model/verdict.h"
#include "decision/settings.h"
#include "test/sim/cluster/job.h"
#include "test/sim/faults/planted.h"

namespace ccld::sim {

struct Said {
  std::vector<decision::Incident> reported;  // every line, in order
  std::vector<decision::Incident> last;      // all incidents as they stand at the end
};

struct Truth {
  const Planted* planted = nullptr;
  const Job* job = nullptr;
  Instant standstill = never;  // when the last thing happened anywhere; never: the job goes on
  Instant suspect_by = never;  // a suspicion is late after this (service clock)
  double slowdown = 0;         // slow faults: longest duration of an operation, mean after the onset over mean before
  Instant confirm_by = never;  // and a confirmation; never: not asked for
  // Of an operation that differs and does not hang: the service was never told by the culprit, or by nobody else.
  bool untold = false;
  bool ends = false;            // processes leave the job because it hangs: incidents may end with it
  bool nobody_is_left = false;  // before it was due all had left who could tell
  bool tied = false;  // or by the culprit and one other: then nobody can tell which of them is right
};

enum class Mistake { none, false_alarm, missed, late, unconfirmed, several, wrong_class, wrong_rank, wrong_component };
const char* name(Mistake);

// One incident as it was last said.
struct Word {
  decision::FaultClass fault = decision::FaultClass::h1_not_entered;
  double confidence = 0;
  bool right = false;        // class, culprits and components, and not before the fault
  std::vector<size_t> rows;  // of slowness: those of slow_confidences() that its causes have
};

struct Judgement {
  Mistake mistake = Mistake::none;
  std::vector<Word> words;
  std::string said;  // one line
  bool right() const { return mistake == Mistake::none; }
};

Judgement judge(const Truth&, const Said&);

// "H1 suspected: process 3 application" of one incident.
std::string describe(const decision::Incident&, const Layout&);

}  // namespace ccld::sim
