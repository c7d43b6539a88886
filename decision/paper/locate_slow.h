// Who makes a communicator slow, by the rules of the paper as published (section 4.2.2): one round, P against alpha and
// beta (equation 4), the least duration for computation, the least SendRate and RecvRate for communication.
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/locate/finding.h"

namespace ccld::decision {

// The round of a window with the largest T_max - T_min of comparable ranks (equation 2).
struct PaperRound {
  double range_ns = -1, t_max_ns = 0, t_min_ns = 0, t_base_ns = 0;
  OpSeq op;
  Signature signature;
  bool base_is_fixed = false;             // T_base is the mean of the first m rounds, not a configured value
  std::vector<Nanoseconds> durations_ns;  // by rank
  std::vector<uint32_t> send_changes, recv_changes;
  double ratio() const { return t_base_ns > 0 ? (t_max_ns - t_base_ns) / t_base_ns : 0; }
  double p() const { return t_max_ns > t_base_ns ? (t_max_ns - t_min_ns) / (t_max_ns - t_base_ns) : 0; }
};

Finding locate_slow_paper(const Communicator&, const PaperRound&, const Settings&);

}  // namespace ccld::decision
