// Communicators being initialized as places where processes wait: which processes are missing, and what their waits
// have to do with hangs elsewhere. A rank that waits in ncclCommInit for one that hangs in another communicator is a
// victim of that one; and one that is missed elsewhere because it makes a communicator waits for that.
//
// Which process a rank that did not come would be is known if a communicator of the job has the same ranks (so it is of
// those split from it, and of further ones of all ranks), or if no other process of the job is left. One that has
// failed on a rank waits for nobody: that is the cause itself. Several jobs may go without a name: of those only
// processes count that communicators connect with the ranks that have come.
//
// Threads: those of the analyzer.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/analysis/watch.h"
#include "decision/locate/wait_graph.h"
#include "decision/model/init_book.h"
#include "schemas/abi/job.h"

namespace ccld::decision {

// Processes that communicators connect, directly or over others. Contract: of one look; linear in ranks.
class ConnectedProcesses {
 public:
  ConnectedProcesses(const ProcessTable&, const Watches&);
  int part_of(const ProcessModel&) const;

 private:
  absl::flat_hash_map<const ProcessModel*, int> parts_;
};

struct KnownInit {
  InitKey key;
  InitWait wait;
  bool all_known = true;  // the processes of all missing ranks
  // Of a job without a name: of what communicators connect, the parts in which ranks are that have come.
  std::shared_ptr<const ConnectedProcesses> parts;
  std::set<int> parts_that_came;
  // The process may be of a rank that has not come.
  bool may_miss(const ProcessModel& p) const {
    if (p.job != key.job) return false;
    return abi::is_named(key.job) || (parts && parts_that_came.contains(parts->part_of(p)));
  }
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
