#include "decision/paper/locate_hang.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "decision/paper/comparable.h"

namespace ccld::decision {

Finding locate_hang_paper(const Communicator& comm, const HangView& view) {
  Finding f;
  f.op = view.op;
  f.signature = view.signature;
  f.hard = true;  // the threshold is all there is
  f.confidence = 0.5;
  f.next_step = "Rules of the paper: run with rules=default for the evidence of channels and links.";

  const auto name_ranks = [&](const std::vector<Rank>& ranks, Component component, Condition condition,
                              const std::string& reason) {
    for (Rank r : ranks)
      if (f.culprits.size() < culprits_max) f.culprits.push_back(make_culprit(comm, r, component, condition, reason));
  };

  std::vector<Rank> absent, at_ease, hung;
  for (const RankModel& r : comm.ranks()) {
    add_evidence(f, {.kind = EvidenceKind::calls_made, .rank = r.rank.value, .value = static_cast<double>(r.entered.value)});
    if (r.entered < view.op)
      absent.push_back(r.rank);
    else if (r.completed >= view.op)
      at_ease.push_back(r.rank);
    else
      hung.push_back(r.rank);
  }
  if (!absent.empty()) {
    f.fault = FaultClass::h1_not_entered;
    name_ranks(absent, Component::application, Condition::not_called, absl::StrCat("its operation counter did not reach ", view.op.value));
  } else if (!at_ease.empty()) {
    f.fault = FaultClass::h2_inconsistent;
    name_ranks(at_ease, Component::application, Condition::unknown, "it does not hang while others do");
  } else {
    f.fault = FaultClass::h3_hardware;
    struct Counts {
      uint64_t sends = 0, receives = 0;
    };
    std::map<Rank, Counts> counts;
    for (Rank rank : hung) {
      Counts& n = counts[rank];
      for (const InFlightOp& o : comm.rank(rank)->last.operations)
        if (o.op == view.op)
          for (const ChannelState& c : o.channels) n.sends += c.send_steps, n.receives += c.recv_steps;
      add_evidence(f, paper_value("SendCount", static_cast<double>(n.sends), "steps", rank.value));
      add_evidence(f, paper_value("RecvCount", static_cast<double>(n.receives), "steps", rank.value));
    }
    // Where layers differ, a rank is compared with its own layer: the one that is furthest behind it.
    uint64_t behind_max = 0;
    std::vector<Rank> fewest = hung;
    for (const auto& group : comparable_groups(comm, view.signature.algorithm)) {
      uint64_t most = 0, least = UINT64_MAX;
      for (Rank r : group) {
        const uint64_t n = counts[r].sends + counts[r].receives;
        most = std::max(most, n);
        least = std::min(least, n);
      }
      if (most - least <= behind_max) continue;
      behind_max = most - least;
      fewest.clear();
      for (Rank r : group)
        if (counts[r].sends + counts[r].receives == least) fewest.push_back(r);
    }
    if (fewest.size() == 1)
      name_ranks(fewest, Component::gpu, Condition::kernel_stuck, "fewest SendCount and RecvCount");
    else
      f.candidates = fewest;
  }
  for (const RankModel& r : comm.ranks())
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank == r.rank; }))
      f.victims.push_back(r.rank);
  return f;
}

}  // namespace ccld::decision
