// Send and Recv: who waits for a call that its peer has not made, and who waits inside. (Beyond the paper, which looks
// at collectives.)
//
// The k-th send of a to b meets the k-th receive of b from a. A rank whose kernel waits in a call for a peer that has
// not made the matching one waits for that peer; if the peer waits in a call of its own, or on another communicator, it
// waits for the next one, and so on: locate/across.h follows. Where both kernels run, the steps tell: locate/walk.h.
//
// Nobody knows from the host who has launched a graph. That a peer has not begun a replay is known if it has ended the
// one before it, or if nothing that it said was lost.
//
// Contract: pure. Says nothing rather than guess: where a list of calls is outdated, cut off or stopped, or what a peer
// did is not known, the wait leads nowhere.
#pragma once

#include <vector>

#include "decision/detect/hang_view.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

inline abi::Direction opposite(abi::Direction d) {
  return d == abi::Direction::send ? abi::Direction::recv : abi::Direction::send;
}

// What is known of the matching call. Launched: its kernel has not begun. Ended: it has given and taken all that it had
// to.
enum class PeerSide { absent, called, launched, inside, ended, unknown };

struct P2pWait {
  Rank waiter, peer;  // the peer may be a rank of which nobody has spoken yet; then its side is unknown
  abi::Direction direction = abi::Direction::recv;  // of the waiter's call
  PeerSide side = PeerSide::absent;
  // Absent: no call of the peer has ended since this service began to hear of it, and there were some before. The
  // matching one may be among these.
  bool may_have_ended = false;
  uint64_t pair_seq = 0, bytes = 0;
  uint32_t replay = 0;       // of the graph that it was recorded into
  Nanoseconds since_ns = 0;  // instant of its launch
};

// By waiter. Of calls that share a kernel only those that it waits for now, as far as its lanes say so.
std::vector<P2pWait> p2p_waits(const Communicator&, const ProcessTable&);

// A call that it has made and not launched: it is inside it, or in an open group; nullptr: none.
const P2pCall* open_call(const RankModel&);

// The call has not ended yet, as far as the waiter has said.
bool still_waits(const Communicator&, const P2pWait&);

}  // namespace ccld::decision
