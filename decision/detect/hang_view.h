// What is seen of a communicator that stands still: in which operation, replay or calls its ranks are, how far each has
// come, what its process is, and for how long nothing has moved. Detection asks how long, location asks who.
//
// Contract: pure; looks only at what is known of one communicator. O(ranks that have spoken + lanes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "decision/detect/rank_views.h"
#include "decision/model/communicator.h"
#include "decision/model/verdict.h"

namespace ccld::decision {

// A process speaks once a second. One that has fallen silent had left so long after it was last heard.
constexpr Nanoseconds leaves_within_ns = 1100 * ns_per_ms;

struct HangView {
  OpSeq op;              // the oldest operation in flight on any rank that still talks
  uint32_t replay = 0;   // != 0: ranks have begun this replay of it
  bool p2p = false;      // no operation: the ranks are in Send and Recv, and `ranks` says whose kernel runs
  bool warmup = false;   // one of the first operations, replays or calls
  bool measured = true;  // its steps can be seen; otherwise standstill and progress look alike
  // Somebody is inside and waits. If all GPUs are still busy with what comes before, nobody does.
  bool awaited = true;
  Signature signature;
  RankViews ranks;
  Nanoseconds stall_ns = 0;         // how long nothing has moved, as far as all ranks that talk have confirmed
  bool early = false;               // too early for suspicion: only hard evidence counts
  bool overdue = false;             // so late that it is certain without hard evidence
  RoundKey key() const { return {op, replay}; }
};

// nullopt: no rank that talks is inside an operation, a replay or a call. A replay comes first: its kernel runs, so
// what was called waits behind it. Nobody knows from the host who has launched a graph: a replay that only some ranks
// show gives a view only if it is known of all others that their GPUs have run the one before it and not this one, or
// that they are lost. Send and Recv come last: with a collective in flight, that one says who is missing.
std::optional<HangView> view_hang(const Communicator&, const ProcessTable&, const Settings&);

// Whether ranks that hung in this operation or replay still hang there, although something has moved.
bool still_hangs(const Communicator&, RoundKey, const ProcessTable&, const Settings&);

// What a rank's own snapshot says of an operation; nullptr: nothing.
const InFlightOp* find_op(const RankModel&, RoundKey);

// Gone, stopped or aborted: it cannot come back by itself.
bool cannot_return(Life);
// Its last words are not its present state.
bool lost(Life);
// Of one that left: after it was said that the job hangs.
bool left_a_hang(const RankModel&, const ProcessTable&);
// For how long that has been so, up to when the others were heard.
Nanoseconds lost_for_ns(const RankModel&, Nanoseconds known_up_to_ns);
// "its process is gone"; empty if it is well.
std::string life_text(Life);
// Unknown if it is well.
Condition condition_of(Life);

// Instant of the newest snapshot, by what is known of the sender's clock now: what comes out of a backlog may have
// looked newer than it was.
Nanoseconds sampled_at(const RankModel&);

// It is gone, or has said nothing for so long that it must be: of the last process of a machine nobody tells.
bool has_left(const ProcessModel&, Nanoseconds now_ns);

// How a process is doing; of a rank, also what its communicator says: it may have aborted, or not be watched.
Life life_of(const ProcessModel&, const ProcessTable&);
Life life_of(const RankModel&, const ProcessTable&);

// Whether a wait or a poll of this age goes on at the time of the snapshot.
Nanoseconds fresh_ns(const HangView&, const Settings&);

}  // namespace ccld::decision
