#include "decision/analysis/cause_findings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "decision/locate/hang.h"
#include "decision/locate/p2p.h"

namespace ccld::decision {
namespace {

constexpr size_t victim_rows_max = 8;
constexpr size_t last_seen_max = 3;

std::string name_of(CommUid uid, const std::string& name) {
  return name.empty() ? absl::StrCat(absl::Hex(uid.value, absl::kZeroPad16)) : name;
}

}  // namespace

void CauseFindings::add_last_seen(Finding& f, const Communicator& comm, Nanoseconds now_ns) const {
  size_t told = 0;
  for (const Culprit& c : f.culprits) {
    const RankModel* r = comm.rank(c.rank);
    if (!r || !r->process || told++ == last_seen_max) continue;
    const Communicator* where = nullptr;
    const RankModel* there = nullptr;
    for (const ProcessModel::Membership& m : r->process->memberships) {
      const auto it = watches_.find(m.comm);
      const RankModel* other = it == watches_.end() ? nullptr : it->second->comm.rank(m.rank);
      if (!other || other->gpu() != r->gpu() || (there && there->moved_ns >= other->moved_ns)) continue;
      there = other;
      where = &it->second->comm;
    }
    if (!there || there->moved_ns == 0) continue;
    add_evidence(f, {.kind = EvidenceKind::last_moved_elsewhere,
                     .rank = c.rank.value,
                     .op = there->entered,
                     .subject = name_of(where->uid(), where->name()),
                     .value = static_cast<double>(now_ns - there->moved_ns) / 1e6});
  }
}

// Of all that are absent only those that wait for nobody themselves.
void CauseFindings::describe_absent(Finding& f, const Cause& cause, const Stall& home, Nanoseconds now_ns) const {
  if (cause.calls) {
    const Signature signature = home.view.signature;
    f = p2p_not_entered(*home.comm, home.calls, cause.ranks, processes_, settings_, now_ns);
    if (f.signature.function == abi::Function::unknown) f.signature = signature;
  } else if (cause.ranks != f.wanted) {
    std::vector<bool> blamed(home.comm->ranks().size());
    for (Rank r : cause.ranks) {
      blamed[r.value] = true;
      // It hangs in a call that nobody else has come to yet.
      if (std::find(f.wanted.begin(), f.wanted.end(), r) != f.wanted.end()) continue;
      f.culprits.push_back(absent_culprit(*home.comm, home.view, r));
      f.fault = FaultClass::h1_not_entered;
      f.next_step = "Dump the stacks of the process: it is inside the call or an open group.";
      std::erase(f.victims, r);
    }
    const bool singled_out = !f.culprits.empty();
    const auto elsewhere = std::count_if(f.wanted.begin(), f.wanted.end(), [&](Rank r) { return !blamed[r.value]; });
    for (const Culprit& c : f.culprits)
      if (!blamed[c.rank.value]) f.victims.push_back(c.rank);
    std::erase_if(f.culprits, [&](const Culprit& c) { return !blamed[c.rank.value]; });
    std::vector<bool> wanted(blamed.size());
    for (Rank r : f.wanted) wanted[r.value] = true;
    std::erase_if(f.candidates, [&](Rank r) { return wanted[r.value] && !blamed[r.value]; });
    // Of many absent ones only so many were described, and the cause may be among the others.
    std::vector<bool> described(blamed.size());
    for (const Culprit& c : f.culprits) described[c.rank.value] = true;
    for (Rank r : cause.ranks) {
      if (!singled_out || described[r.value] || f.culprits.size() >= culprits_max ||
          home.view.ranks[r.value].progress >= Progress::begun)
        continue;
      f.culprits.push_back(absent_culprit(*home.comm, home.view, r));
      std::erase(f.candidates, r);
      std::erase(f.victims, r);
    }
    if (!singled_out && elsewhere > 0) {
      // Of those that nothing told apart, the others are explained.
      f.candidates.clear();
      for (Rank r : cause.ranks)
        if (f.culprits.size() < culprits_max) f.culprits.push_back(absent_culprit(*home.comm, home.view, r));
      f.confidence = 0.6;
    } else if (f.culprits.empty()) {
      f.candidates = cause.ranks;
    }
    std::erase_if(f.evidence, [&](const Evidence& e) { return e.rank >= 0 && wanted[e.rank] && !blamed[e.rank]; });
    add_evidence(f, {.kind = EvidenceKind::ranks_absent_elsewhere, .value = static_cast<double>(elsewhere)});
    if (!f.culprits.empty())
      for (Wait& w : f.waits)
        if (wanted[w.waits_for.value] && !blamed[w.waits_for.value]) w.waits_for = f.culprits[0].rank;
    std::erase_if(f.waits, [&](const Wait& w) { return blamed[w.rank.value]; });
  }
  add_last_seen(f, *home.comm, now_ns);
}

Finding CauseFindings::describe(const Cause& cause, const std::vector<Stall>& stalls, Nanoseconds now_ns) const {
  const Stall& home = stalls[cause.home];
  Finding f = home.finding;
  f.op = home.view.op;
  f.replay = home.view.replay;
  if (f.signature.function == abi::Function::unknown) f.signature = home.view.signature;
  switch (cause.kind) {
    case CauseKind::inside:
      if (cause.complete || f.hard) break;
      if (f.wanted.empty()) break;
      // Those it waits for wait for what cannot be seen.
      for (const Culprit& c : f.culprits) f.candidates.push_back(c.rank);
      f.culprits.clear();
      f.confidence = 0.2;
      f.next_step =
          "The waits lead to what cannot be seen: a stopped probe (start it again: ccld tune --job JOB running=1), a "
          "list of calls that is cut off, or symmetric kernels and copy engines (NCCL_PROBE_STREAM_WRITES=1 shows "
          "them).";
      break;
    case CauseKind::initialization: break;  // told of with the initialization
    case CauseKind::absent: describe_absent(f, cause, home, now_ns); break;
    case CauseKind::cycle: {
      f.fault = FaultClass::h2_inconsistent;
      f.culprits.clear();
      f.candidates = cause.ranks;
      f.victims.clear();
      f.evidence.clear();
      f.waits.clear();
      f.confidence = 0.7;
      f.hard = false;
      f.cycle = cause.cycle;
      const bool one = std::all_of(f.cycle.begin(), f.cycle.end(),
                                   [&](const CycleStep& s) { return s.comm == home.comm->uid() && s.op.value == 0; });
      for (const CycleStep& s : f.cycle)
        add_evidence(f, {.kind = EvidenceKind::circle,
                         .subject = absl::StrCat("rank ", s.rank.value, " (", s.host, " pid ", s.pid, ") in ",
                                                 s.comm.value == 0 ? "the initialization"
                                                 : s.op.value == 0 ? "Send or Recv"
                                                                   : absl::StrCat("operation ", s.op.value),
                                                 " of communicator ", name_of(s.comm, s.comm_name)),
                         .value = static_cast<double>(s.waits_for.value)});
      f.next_step =
          one ? "Every candidate waits for a call that its peer makes later: compare the order of their Send and Recv "
                "calls, and group those that must run together."
              : "Communicators were entered in different orders by different processes: compare the order of calls of "
                "the candidates.";
      break;
    }
  }
  size_t rows = 0;
  for (size_t i : cause.initializations) {
    const InitWait& m = initializations_[i].wait;
    f.victims_elsewhere += static_cast<uint32_t>(m.waiting.size());
    f.victim_comms.push_back({CommUid{}, m.name, m.rank_count, OpSeq{}});
    if (rows++ < victim_rows_max)
      add_evidence(f, {.kind = initializations_[i].all_known ? EvidenceKind::ranks_of_comm_wait
                                                             : EvidenceKind::ranks_of_comm_may_wait,
                       .subject = m.name,
                       .value = static_cast<double>(m.waiting.size())});
  }
  for (size_t i : cause.stalls) {
    if (i == cause.home) continue;
    const Stall& s = stalls[i];
    const int count = s.comm->rank_count();
    f.victims_elsewhere += static_cast<uint32_t>(count);
    f.victim_comms.push_back({s.comm->uid(), s.comm->name(), count, s.view.op});
    if (rows++ < victim_rows_max)
      add_evidence(f, {.kind = EvidenceKind::ranks_of_comm_wait,
                       .subject = name_of(s.comm->uid(), s.comm->name()),
                       .value = static_cast<double>(count)});
  }
  return f;
}

}  // namespace ccld::decision
