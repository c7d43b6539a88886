// What batches say, to whom it concerns: who there is into the tables, what ranks and processes report to the reports,
// in the order in which the batches came. Where what they are about is kept is looked up for many at a time.
// Threads: those of the analyzer, which it lets look up.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "decision/analysis/reports.h"
#include "decision/analysis/tables.h"
#include "decision/model/events.h"
#include "decision/workers.h"

namespace ccld::decision {

class Hearing {
 public:
  // `whatif`: nullptr: the paper's rules.
  Hearing(Workers& workers, Tables& tables, Reports& reports, WhatIfAnalysis* whatif)
      : workers_(workers), tables_(tables), reports_(reports), whatif_(whatif) {}

  // All that they report is taken in when it comes back.
  void hear(absl::Span<const Batch* const>, Nanoseconds now_ns);
  // What waits, before anybody goes.
  void take_in() { reports_.take_in(heard_ns_); }

 private:
  // Where what a batch is about is kept, as far as that is known.
  struct FoundRank {
    Watch* watch = nullptr;
    bool is_member = false;  // the sender speaks for this rank
    int cuda_device = -1;    // of a member
  };
  struct Found {
    ProcessModel* sender = nullptr;
    std::vector<FoundRank> ranks;  // by payload
  };
  void look_up(const Batch&, Found&) const;
  template <class Message>
  void look_up(const Message&, const ProcessModel& sender, FoundRank&) const;
  static FoundRank find_in(Watch&, Rank, const ProcessModel& sender);
  static void prefetch(const Found&);

  void hear(const Batch&, const Found&, Nanoseconds now_ns);
  // One kind of message each; `payload`: the message.
  void hear(const AgentHealth&, const Payload&, FoundRank, ProcessModel&);
  void hear(const CommInit&, const Payload&, FoundRank, ProcessModel&);
  void hear(const ControlState&, const Payload&, FoundRank, ProcessModel&);
  void hear(const Metrics&, const Payload& payload, FoundRank, ProcessModel&);
  void hear(const NetQueues&, const Payload& payload, FoundRank, ProcessModel&);
  void hear(const CommUp&, const Payload&, FoundRank, ProcessModel&);
  void hear(const CommDown&, const Payload&, FoundRank, ProcessModel&);
  template <class Reported>
  void hear(const Reported&, const Payload&, FoundRank, ProcessModel&);
  void last_operations(const ProcessModel& reporter, const AgentHealth&);
  ProcessModel* take_in_lost(const ProcessModel& reporter, const Sibling&);

  Workers& workers_;
  Tables& tables_;
  Reports& reports_;
  WhatIfAnalysis* const whatif_;
  std::vector<Found> found_;
  Nanoseconds heard_ns_ = 0;  // of the batch that is heard
};

}  // namespace ccld::decision
