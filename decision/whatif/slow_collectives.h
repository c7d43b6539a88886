// The collectives of a communicator that some of its connections or proxies make slow.
// Contract: plain data.
#pragma once

#include <optional>
#include <vector>

#include "decision/locate/slow_network.h"
#include "decision/model/communicator.h"
#include "decision/model/verdict.h"

namespace ccld::decision::whatif {

// Compared with the other connections now.
struct SlowLink {
  Rank sender, receiver;                  // of a proxy that does not look at its work, only one of them: `at`
  Rank at;                                // whose component it is
  Component component = Component::link;  // link, nic or proxy
  double steps = 0;                       // that stand in it, on average; 0: the proxy did not look
  double away_part = 0;                   // of the time, in which the proxy did not look
};

// Compared with the past.
struct GrownNetwork {
  SlowWindow window;
  SlowNetwork network;
  Finding evidence;
  bool stands_out = false;  // other connections over the network have not grown so
};

struct SlowCollectives {
  const Communicator* comm = nullptr;
  std::vector<int> groups;  // of the graph
  double lost_part = 0;     // of their transfers: beyond those of the other connections, or beyond the usual
  std::vector<SlowLink> links;
  bool one_clock = true;  // both ends of all connections over the network are by one
  std::optional<GrownNetwork> grown;  // in place of `links`
  OpSeq op;                           // the first operation
  Signature signature;
};

}  // namespace ccld::decision::whatif
