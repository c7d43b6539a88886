// Communicators being initialized as places where processes wait: which processes are missing, and what their waits
// have to do with hangs elsewhere. A rank that waits in ncclCommInit for one that hangs in another communicator is a
// victim of that one; and one that is missed elsewhere because it makes a communicator waits for that.
//
// Which process a rank that did not come would be is known if a communicator of the job has the same ranks (so it is of
// those split from it, and of further ones of all ranks), or if no other process of the job is left.
// Threads: those of the analyzer.
#pragma once

#include <map>
#include <vector>

#include "decision/analysis/watch.h"
#include "decision/locate/wait_graph.h"
#include "decision/model/init_book.h"

namespace ccld::decision {

struct KnownInit {
  InitKey key;
  InitWait wait;
  bool all_known = true;  // the processes of all missing ranks
};

// Those in which somebody has waited for at least `least_ns`.
std::vector<KnownInit> waiting_inits(const InitBook&, const ProcessTable&, const Watches&, Nanoseconds least_ns,
                                     Nanoseconds now_ns);

// What the last look at hangs says of initializations.
struct InitLinks {
  std::map<InitKey, uint64_t> victims;                 // the incident that it waits for
  std::map<InitKey, std::vector<VictimComm>> waiting;  // communicators that wait for it
};

std::string init_name(const InitKey&);

}  // namespace ccld::decision
