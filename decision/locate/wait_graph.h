// Who waits for whom, over the processes of all stalled communicators. (Beyond the paper, which looks at one
// communicator at a time.)
//
// Contract
//   Two kinds of nodes. A site is a place where ranks wait: an operation of a communicator (for the ranks that are not
//   in it; for nobody, if the cause lies inside), the Send and Recv calls of one rank (for the peers that have not made
//   the matching call), or a communicator initialization (for the ranks that have not come, as far as their processes
//   are known). An actor is a GPU of a process: it waits at every site where it has entered and the others have not, on
//   any communicator. One whose newest call nobody can see leads to what is not known, too. A lost process (stopped,
//   gone, aborted, silent) waits for nobody; one that left because of another still waits, and for what broke its
//   communicators, too. Built from what somebody waits for, so O(ranks waited for + their memberships). Groups are the
//   strongly connected components, numbered so that a group only leads to groups with smaller numbers: one that leads
//   nowhere is an end.
// Threads: none of it has state of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/detect/p2p.h"
#include "decision/locate/finding.h"
#include "decision/locate/unseen.h"

namespace ccld::decision {

// A communicator that stands still, with what is known of it alone.
struct Stall {
  const Communicator* comm = nullptr;
  HangView view;
  bool located = false;  // `finding` is valid: of the operation, or of the kernels of Send and Recv
  Finding finding;
  std::vector<P2pWait> calls;  // by waiter
};

// A communicator being initialized: hosts of those that have come wait inside the call.
struct InitWait {
  struct Member {
    const ProcessModel* process;
    int device;
    Rank rank;
  };
  std::string name;
  int rank_count = 0;
  std::vector<Member> waiting, missing;  // missing: those of which the process is known
};

struct WaitNode {
  enum class Kind { operation, calls, initialization, actor, unknown } kind = Kind::unknown;
  int stall = -1;                         // of a site; of `initialization`: index of InitWait
  Rank rank;                              // of `calls`: the waiter. Of an actor never heard of: who it is in `stall`
  const ProcessModel* process = nullptr;  // of an actor; nullptr: a rank that was never heard of
  int device = -1;                        // of an actor
  Life life = Life::well;                 // of an actor
  bool complete = true;                   // of an actor: its own words are recent and whole
  // Of an actor that is not lost, or not yet known to be: they are not recent, or it waits in an unheard communicator.
  bool outdated = false;
  Nanoseconds moved_ns = 0;               // of an actor: anywhere
  std::vector<int> out;
  int group = -1;
};

// Communicators in which nothing has moved since somebody was last heard: whether they stand still will be known once he
// speaks, or is known to be silent.
using Unheard = absl::flat_hash_map<CommUid, const Communicator*>;

class WaitGraph {
 public:
  // All must outlive it.
  WaitGraph(const std::vector<Stall>&, const Unheard&, const std::vector<InitWait>&, const ProcessTable&,
            const FindCommunicator&);

  const std::vector<WaitNode>& nodes() const { return nodes_; }
  int groups() const { return groups_; }
  const Stall& stall(int i) const { return stalls_[i]; }
  const InitWait& initialization(int i) const { return initializations_[i]; }
  int index_of(CommUid comm) const {
    const auto it = by_comm_.find(comm);
    return it == by_comm_.end() ? -1 : it->second;
  }
  // Where the actor is a member of the communicator; -1: nowhere.
  Rank rank_of(const WaitNode& actor, int stall) const;
  // The wait of this p2p site that leads to the actor; nullptr: none.
  const P2pWait* wait_for(const WaitNode& site, const WaitNode& actor) const;

 private:
  int node(WaitNode::Kind, int stall, Rank);
  int actor(int stall, Rank);
  int actor(const ProcessModel&, int device);
  void expand(int);
  void find_groups();
  bool waits_in_operation(int stall, Rank) const;
  std::vector<int> broken_of(const ProcessModel&) const;
  // The rank, if it is of this GPU; nullptr: it is not, or not known.
  const RankModel* rank_on(const ProcessModel::Membership&, const ProcessModel&, int device) const;
  void add_unseen(const ProcessModel::Membership&, const RankModel&, std::vector<int>& out);
  std::pair<size_t, size_t> calls_of(int stall, Rank) const;

  const std::vector<Stall>& stalls_;
  const Unheard& unheard_;
  const std::vector<InitWait>& initializations_;
  const ProcessTable& processes_;
  const FindCommunicator& find_;
  UnseenWaits unseen_;
  std::vector<WaitNode> nodes_;
  int groups_ = 0;
  absl::flat_hash_map<CommUid, int> by_comm_;
  std::vector<std::vector<bool>> wanted_;  // by stall and rank
  absl::flat_hash_map<std::pair<int64_t, int32_t>, int> sites_;
  absl::flat_hash_map<std::pair<const void*, int64_t>, int> actors_;
  absl::flat_hash_map<std::pair<const void*, int64_t>, std::vector<int>>
      makes_;  // by actor: initializations it waits in
};

}  // namespace ccld::decision
