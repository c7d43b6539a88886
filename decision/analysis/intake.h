// What batches that came together say and nobody has taken in yet, so that several threads can do it: each communicator
// is taken up by one of them, which alone changes it meanwhile, and so is what each process says of itself.
//
// Contract: what is found does not depend on how many threads there are, nor on which batches came together: it is as
// if one batch were taken in after the other. To that end the caller takes in what waits before anything that changes
// more than one of them or that they look at: who is a rank of what (CommUp, CommDown, a rank's first report), a second
// batch of a process, anything that is let go of. Batches outlive take_in(). Threads: those of the analyzer.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "decision/analysis/watch.h"
#include "decision/workers.h"

namespace ccld::decision {

// What a rank has said. `payload`: Rounds, P2pRounds or InFlight.
struct Report {
  const Payload* payload;
  ProcessModel* process;
};

class Intake {
 public:
  // Of the process itself: Metrics or NetQueues.
  void add(ProcessModel&, const Payload&);
  // Of one of its ranks: Rounds, P2pRounds or InFlight.
  void add(Watch&, ProcessModel&, const Payload&);
  bool empty() const { return processes_.empty(); }
  static bool waits(const ProcessModel& p) { return p.waits; }

  // One of them is called for each report: by one thread at a time for each communicator, and for each process.
  struct Takers {
    absl::FunctionRef<void(Watch&, const Report&)> of_communicator;
    // `comm`: nullptr: of the process itself.
    absl::FunctionRef<void(ProcessModel&, const Payload&, const Communicator* comm)> of_process;
    // Afterwards, for each communicator, one after the other.
    absl::FunctionRef<void(Watch&)> settle;
  };
  void take_in(Workers&, const Takers&);

 private:
  struct Said {
    const Payload* payload;
    const Communicator* comm;
  };
  void say(ProcessModel&, const Said&);
  struct OfProcess {
    ProcessModel* process;
    size_t first_said;
  };
  std::vector<Watch*> watches_;  // whose reports wait
  // Of each of them; more than there are, so that their memory is used again.
  std::vector<std::vector<Report>> reports_;
  std::vector<OfProcess> processes_;
  std::vector<Said> said_;
};

}  // namespace ccld::decision
