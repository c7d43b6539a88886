// Location of a hang inside one communicator: H1 by how far each rank came, H3 by the walk.
// (Paper, section 4.2.2, figure 7; H2 comes from the signature history, see detect/mismatch.h.)
//
// Contract: pure; looks only at what is known of one communicator. O(ranks + lanes).
#pragma once

#include <optional>
#include <vector>

#include "decision/locate/finding.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// How far a rank came in the operation that hangs.
enum class Progress { unknown, not_called, called, launched, begun, done, left };

// What is known about the process of a rank.
// Not watched: its probe was stopped by an operator, so neither its silence nor its counters mean anything.
enum class Life { well, stopped, gone, silent, host_silent, aborted, unknown, not_watched };

struct RankProgress {
  Progress progress = Progress::unknown;
  Life life = Life::well;
  // Its own snapshot shows this operation; otherwise its neighbours' lanes are the witnesses.
  bool own_word = false;
  bool reports() const { return life == Life::well; }
};

struct HangView {
  OpSeq op;             // the oldest operation in flight on any rank that still talks
  uint32_t replay = 0;  // != 0: all ranks have begun this replay of it
  bool measured = true;  // its steps can be seen; otherwise standstill and progress look alike
  Signature signature;
  std::vector<RankProgress> ranks;  // by rank
  Nanoseconds stall_ns = 0;         // how long nothing has moved, as far as all ranks that talk have confirmed
  bool early = false;               // too early for suspicion: only hard evidence counts
  bool overdue = false;             // so late that it is certain without hard evidence
  RoundKey key() const { return {op, replay}; }
};

// nullopt: no rank that talks is inside an operation. A replay that all ranks have begun comes first: its kernel runs, so
// what was called waits behind it. Replays that only some ranks show give no view: nobody knows who has launched a graph.
std::optional<HangView> view_hang(const Communicator&, const ProcessTable&);

// How the rank's process is doing.
Life life_of(const RankModel&, const ProcessTable&);

// Whether a wait or a poll of this age goes on at the time of the snapshot.
Nanoseconds fresh_ns(const HangView&, const Settings&);

Finding locate_hang(const Communicator&, const HangView&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
