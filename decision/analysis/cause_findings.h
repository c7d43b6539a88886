// What is said of the cause of a hang: class, culprits or candidates, who waits for it, and the evidence. (Paper,
// section 4.2.2; beyond it, one cause of several communicators.) Threads: those of the analyzer.
#pragma once

#include <vector>

#include "decision/analysis/init_waits.h"
#include "decision/analysis/watch.h"
#include "decision/locate/across.h"
#include "decision/model/processes.h"

namespace ccld::decision {

class CauseFindings {
 public:
  // All must outlive it.
  CauseFindings(const Watches& watches, const ProcessTable& processes, const std::vector<KnownInit>& initializations,
                const Settings& settings)
      : watches_(watches), processes_(processes), initializations_(initializations), settings_(settings) {}

  Finding describe(const Cause&, const std::vector<Stall>&, Nanoseconds now_ns) const;

 private:
  void describe_absent(Finding&, const Cause&, const Stall& home, Nanoseconds now_ns) const;
  void add_last_seen(Finding&, const Communicator&, Nanoseconds now_ns) const;

  const Watches& watches_;
  const ProcessTable& processes_;
  const std::vector<KnownInit>& initializations_;
  const Settings& settings_;
};

}  // namespace ccld::decision
