// Causes of the what-if model that are one: a wire, a network device or a proxy is used by several communicators, and
// by collectives and by Send and Recv. (Beyond the paper.)
//
// Contract: pure over one look at a job's graph.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "decision/analysis/whatif_findings.h"

namespace ccld::decision {

struct Suspect {
  std::vector<size_t> causes;            // of the explanation; the first one says what it is
  std::set<std::string> keys;            // by which it is recognised in the next window: any of them
  std::set<std::string> hosts;           // between which its connections are
  bool is_link = false;                  // a wire or a network device
  double gain_ns = 0, host_gain_ns = 0;  // of all; of it, that of a late host
  uint64_t slow_transfers = 0;           // of Send and Recv, on the connection that has most of them
  std::set<CommUid> comms;               // whose transfers it slows; of a late rank: none
};

// The one that gains most first.
std::vector<Suspect> put_together(const WhatIfLook&);

}  // namespace ccld::decision
