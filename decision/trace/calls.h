// Operations in words, and the numbers of their arrows.
// Contract: pure.
#pragma once

#include <string>

#include "decision/trace/events.h"
#include "decision/model/events.h"

namespace ccld::decision::trace {

Args args_of(const Signature&);
std::string flags_text(uint8_t round_flags);  // why there are no times, or what they are of; empty: nothing special

// One call on all its ranks.
uint64_t collective_arrow(CommUid, RoundKey);
// A Send and its Recv.
uint64_t transfer_arrow(CommUid, Rank sender, Rank receiver, uint64_t pair_seq, uint32_t replay);
// A call of a rank and its kernel.
uint64_t launch_arrow(CommUid, Rank, RoundKey);
uint64_t launch_arrow(CommUid, Rank, Rank peer, abi::Direction, uint64_t pair_seq);

}  // namespace ccld::decision::trace
