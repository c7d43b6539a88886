#include "decision/locate/endless_init.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "schemas/abi/names.h"

namespace ccld::decision {

using abi::InitStage;

namespace {

// When the first of them failed; INT64_MAX: none has.
Nanoseconds first_failed_ns(const Initialization& m) {
  Nanoseconds first_ns = INT64_MAX;
  for (const auto& [rank, r] : m.ranks)
    if (r.stage == InitStage::failed) first_ns = std::min(first_ns, r.stage_ns);
  return first_ns;
}

// Who has failed itself: not because somebody else had, which NCCL says by this result or shows by failing later.
std::vector<int32_t> failed_first(const Initialization& m, const Settings& settings) {
  constexpr int32_t remote_error = 6;  // ncclRemoteError
  const Nanoseconds first_ns = first_failed_ns(m);
  std::vector<int32_t> first, own;
  for (const auto& [rank, r] : m.ranks) {
    if (r.stage != InitStage::failed || r.stage_ns - first_ns > seconds_to_ns(settings.losses_apart_s)) continue;
    first.push_back(rank);
    if (r.result != remote_error) own.push_back(rank);
  }
  return own.empty() ? first : own;
}

// A process that left after that did so because of it.
bool lost_before(const ProcessModel& p, Nanoseconds failed_ns) {
  return (p.gone() || p.stopped() ? p.state_since_ns : p.heard_ns) < failed_ns;
}

}  // namespace

std::optional<Finding> find_endless_init(const InitKey& key, const Initialization& m, const ProcessTable& processes,
                                         const Settings& settings, Nanoseconds now_ns) {
  Nanoseconds moved_ns = m.entered_ns;
  for (const auto& [rank, r] : m.ranks) moved_ns = std::max({moved_ns, r.entered_ns, r.stage_ns});
  const bool some_failed = failed(m);
  const auto waits = [&](const InitRank& r) {
    return under_way(r) && (!some_failed || (r.process && !r.process->gone() && !processes.silent(*r.process)));
  };
  const bool somebody_waits =
      std::any_of(m.ranks.begin(), m.ranks.end(), [&](const auto& r) { return waits(r.second); });
  if (some_failed && !somebody_waits) return std::nullopt;
  const double timeout_s = some_failed ? std::min(settings.hang_suspect_s, settings.init_hang_s) : settings.init_hang_s;
  if (now_ns - moved_ns < seconds_to_ns(timeout_s)) return std::nullopt;
  Finding f;
  f.fault = FaultClass::h1_not_entered;
  f.title = "communicator initialization does not end";
  std::map<InitStage, size_t> stages;
  for (const auto& [rank, r] : m.ranks) ++stages[r.stage];
  const auto culprit = [&](int32_t rank, const InitRank* r, Condition condition, std::string reason) {
    if (f.culprits.size() >= culprits_max) {
      f.candidates.push_back(Rank{rank});
      return;
    }
    Culprit c;
    c.rank = Rank{rank};
    c.component = Component::process;
    c.condition = condition;
    c.reason = std::move(reason);
    if (r && r->process) {
      c.host = r->process->id.host;
      c.pid = r->process->id.pid;
      c.cuda_device = r->cuda_device;
    }
    f.culprits.push_back(std::move(c));
  };
  // Who cannot come any more, then who never came, then who is behind the others.
  const Nanoseconds failed_ns = first_failed_ns(m);
  for (const auto& [rank, r] : m.ranks) {
    if (!r.process || !under_way(r) || !lost_before(*r.process, failed_ns)) continue;
    const std::string stage = absl::StrCat(" during the initialization of the communicator (", abi::name_of(r.stage), ")");
    if (r.process->gone())
      culprit(rank, &r, Condition::gone, absl::StrCat("its process went away", stage));
    else if (r.process->stopped())
      culprit(rank, &r, Condition::stopped, absl::StrCat("its process is stopped", stage));
    else if (!r.process->probe_stopped && processes.silent(*r.process))
      culprit(rank, &r, Condition::silent, absl::StrCat("its process is silent", stage));
  }
  const size_t missing = static_cast<size_t>(key.rank_count) - std::min<size_t>(m.ranks.size(), key.rank_count);
  if (f.culprits.empty() && some_failed) {
    for (int32_t rank : failed_first(m, settings)) {
      const InitRank& r = m.ranks.at(rank);
      culprit(rank, &r, Condition::initialization_failed,
              absl::StrCat("its initialization of the communicator failed with ncclResult_t ", r.result,
                           r.process && r.process->gone() ? "; since then its process has gone" : "",
                           ": the others wait for it"));
      add_evidence(f,
                   {.kind = EvidenceKind::initialization_result, .rank = rank, .value = static_cast<double>(r.result)});
    }
    // What failed may be that these did not come.
    for (Rank r : never_heard(key, m, culprits_max)) f.candidates.push_back(r);
    f.next_step =
        "Read the log of the named ranks (NCCL_DEBUG=WARN says what failed). The others wait until their processes "
        "end: end them, or abort the communicator on all ranks when one of them gets an error.";
  } else if (f.culprits.empty()) {
    for (Rank r : never_heard(key, m, culprits_max))
      culprit(r.value, nullptr, Condition::never_heard,
              "never heard of: it did not come to the initialization of the communicator, or is not watched");
    f.next_step =
        "Find the processes of the missing ranks: were they started, did they fail before, can they reach the others "
        "(and "
        "this service)?";
  } else {
    f.next_step =
        "Look at the named processes: who stopped them, exit status, kernel log, reachability of their hosts.";
  }
  if (f.culprits.empty()) {
    InitStage least = InitStage::ready;
    for (const auto& [rank, r] : m.ranks) least = std::min(least, r.stage);
    if (stages[least] < m.ranks.size()) {
      for (const auto& [rank, r] : m.ranks)
        if (r.stage == least)
          culprit(rank, &r, Condition::initialization_behind,
                  absl::StrCat("is still ", least == InitStage::entered ? "looking for the others" : "connecting"));
    } else {
      for (const auto& [rank, r] : m.ranks) f.candidates.push_back(Rank{rank});
    }
    f.next_step =
        "All ranks came: look at the network between the named ranks and the rest, and at their logs "
        "(NCCL_DEBUG=INFO).";
  }
  for (const auto& [stage, count] : stages)
    add_evidence(f, {.kind = EvidenceKind::ranks_in_stage,
                     .subject = abi::name_of(stage),
                     .value = static_cast<double>(count)});
  add_evidence(f, {.kind = EvidenceKind::ranks_never_heard, .value = static_cast<double>(missing)});
  add_evidence(f, {.kind = EvidenceKind::initialization_age,
                   .value = static_cast<double>(now_ns - m.entered_ns) / 1e6});
  for (const auto& [rank, r] : m.ranks)
    if (waits(r) &&
        std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == rank; }))
      f.victims.push_back(Rank{rank});
  // A rank without this library looks the same as one that is not there.
  f.confidence = f.culprits.empty() ? 0.2 : missing > 0 ? 0.7 : some_failed ? 0.9 : 0.6;
  return f;
}

}  // namespace ccld::decision
