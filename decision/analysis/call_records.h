// Which communicators' calls are kept one by one, for people who look at an incident: those that an open incident
// names.
//
// Contract: bounded by ranks_max ranks of all these communicators (100 bytes each); the oldest incidents come first.
// What it costs is bounded, too: of a look at most cells_max cells, so that a few calls of a large communicator, or
// many of a small one, may be missing. Nothing is kept, nor done, where all is well. Threads: those of the analyzer.
#pragma once

#include <map>
#include <vector>

#include "decision/analysis/incident_book.h"
#include "decision/analysis/watch.h"
#include "decision/model/status.h"

namespace ccld::decision {

class CallRecords {
 public:
  // One communicator of the largest size that is accepted (ranks_max), or many smaller ones: 26 MB.
  static constexpr size_t ranks_max = size_t{1} << 18;
  // A cell takes up to 8 ns (a busy virtual machine): 2 of the 100 ms between two looks. One call of the largest
  // communicator.
  static constexpr size_t cells_max = ranks_max;

  // A new look: whose calls are kept from now on.
  void choose(const IncidentBook&, const Watches&);
  bool keeps(CommUid comm) const { return !kept_.empty() && kept_.contains(comm); }
  // A call that all ranks have reported, or most.
  void add(CommUid, const RoundEntry&, Nanoseconds now_ns);
  std::vector<CommCalls> all() const;

 private:
  struct Kept {
    CallRecord record;
    size_t ranks = 0;
  };
  std::map<CommUid, Kept> kept_;
  size_t ranks_ = 0;  // of all of them
  size_t cells_ = 0;  // in this look
};

}  // namespace ccld::decision
