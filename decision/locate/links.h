// What the two ends and the proxies between them say about an edge on which a step is missing or late.
// (Paper, section 4.1.1: Send/Recv counts expose transport issues; here the counts of the proxies are compared as
// well.)
#pragma once

#include "decision/locate/finding.h"
#include "decision/locate/hang.h"
#include "decision/model/steps.h"

namespace ccld::decision {

struct StuckEdge {
  Rank sender, receiver;
  int channel = 0;
  uint32_t want = 0;    // the step that does not arrive, or whose slot does not become free
  uint32_t posted = 0;  // what the sender's GPU has posted
  bool slot = false;    // the sender waits for the slot, and has not posted the step
};

struct EdgeVerdict {
  Culprit culprit;
  bool single = true;        // false: both ends are left, and the culprit is only the first of them
  bool other_proxy = false;  // that of another rank has the step (PXN), and is not measured
  double confidence = 0;
  // Something was given to the edge and is seen to stay there. Otherwise it may still be set up.
  bool given = true;
  // A proxy has a part in it at this end, and is not seen to poll.
  bool sender_may_starve = false, receiver_may_starve = false;
  std::vector<Evidence> evidence;
};

// The step has come as far as the receiver's GPU could see it.
bool delivered(const Communicator&, const StuckEdge&);

// The sender has posted what the receiver wants, and the receiver has not got it: whose fault is it?
EdgeVerdict judge_edge(const Communicator&, const HangView&, const StuckEdge&, Nanoseconds fresh_ns);

}  // namespace ccld::decision
