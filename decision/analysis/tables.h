// The communicators, processes and initializations that are known, and the room for them: where there is none, those
// that are missed least make way (room.h), and who finds no room is refused and counted.
// Threads: those of the analyzer; find() several at a time while nothing changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/analysis/watch.h"
#include "decision/model/init_book.h"
#include "decision/model/let_go.h"
#include "decision/model/processes.h"
#include "decision/settings.h"

namespace ccld::decision {

class Tables {
 public:
  // What the rest of the analysis does about that.
  struct Around {
    std::function<void()> take_in;                         // reports that wait, before anybody is chosen who goes
    std::function<absl::flat_hash_set<CommUid>()> needed;  // communicators of open incidents
    std::function<void(Watch&, Nanoseconds now_ns)> leaves;
  };
  Tables(const Settings&, Around);

  Watches& watches() { return watches_; }
  ProcessTable& processes() { return processes_; }
  const ProcessTable& processes() const { return processes_; }
  InitBook& inits() { return inits_; }

  Watch* find(CommUid) const;
  // It is made if there is room; else nullptr.
  Watch* find_or_make(CommUid);
  // Before a process is heard: a full table is nobody's for ever.
  void make_room_for(const ProcessId&, Nanoseconds now_ns);
  // Changes when a communicator or a process goes: a pointer that was looked up before may be none any more.
  uint64_t gone() const { return gone_; }

  // Two of a communicator's ranks say what cannot be: it goes.
  void contradicted(CommUid, Nanoseconds now_ns);
  // What has ended, or was not heard for long.
  void forget(Nanoseconds now_ns);
  // For want of memory, as Analyzer.
  void let_go_histories();
  size_t let_go(double part, Worth up_to, Nanoseconds now_ns);
  void admit_new(bool);

  LetGo let_go_so_far() const;
  uint64_t contradictions() const { return contradictions_; }
  uint64_t ranks_refused() const { return budget_.refused(); }
  uint64_t names_refused() const { return budget_.names_refused(); }

 private:
  size_t at_once() const;
  size_t let_go_communicators(size_t count, Worth up_to);
  size_t let_go_of(const std::vector<CommUid>&);
  void make_room_for_ranks(const ProcessId&, Nanoseconds now_ns);
  Watches::iterator remove(Watches::iterator, Nanoseconds now_ns);

  const Settings& settings_;
  const Around around_;
  ProcessTable processes_;
  RankBudget budget_;
  Watches watches_;
  absl::flat_hash_map<CommUid, Watch*> watch_of_;  // every message asks
  InitBook inits_;
  bool admits_new_ = true;
  uint64_t gone_ = 0, contradictions_ = 0;
  LetGo let_go_;
  Nanoseconds forgot_ns_ = 0, no_rank_room_until_ns_ = 0, next_process_room_ns_ = 0;
  size_t no_rank_room_for_ = 0;  // memberships of a machine
};

}  // namespace ccld::decision
