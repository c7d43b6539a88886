// The collectives of a communicator that some of its connections, proxies or GPUs make slow.
// Contract: plain data.
#pragma once

#include <vector>

#include "decision/measure/passage.h"
#include "decision/model/communicator.h"
#include "decision/model/verdict.h"

namespace ccld::decision::whatif {

struct SlowLink {
  Rank sender, receiver;                  // of a proxy as a whole, only one of them: `at`
  Rank at;                                // whose component it is
  Component component = Component::link;  // link, nic, proxy or gpu
  double steps = 0;                       // that wait in it, on average; 0: the proxy did not poll
  double away_part = 0;                   // of the time in which others poll: in which the proxy did not
  double waiting[passage_parts] = {};     // steps in each part of the way, beyond the reference
  double under_way_ns = 0;                // of a step, in device and on wire, beyond that of other connections now
  double longer_ns = 0;                   // of a step, until it is given to the GPU, beyond the reference
  bool by_past = false;                   // the reference; else the other connections
  double lost_part = 0;                   // of an operation, at least
  double lost_most_part = 0;              // at most
  double lost_since_part = 0;             // likewise, by what its steps take longer than before; 0: not known
};

struct SlowCollectives {
  const Communicator* comm = nullptr;
  struct Operation {
    int group = -1;        // of the graph
    double lost_part = 0;  // of its transfer
  };
  std::vector<Operation> operations;
  std::vector<SlowLink> links;
  bool by_past = false;  // all of them
  bool changed = false;  // the past says so, of connections or of how long operations take
  OpSeq op;              // the first operation
  Signature signature;
};

}  // namespace ccld::decision::whatif
