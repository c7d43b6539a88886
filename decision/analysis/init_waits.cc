#include "decision/analysis/init_waits.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

bool being_initialized(const InitRank& r) {
  return r.process && r.stage != abi::InitStage::none && r.stage != abi::InitStage::ready &&
         r.stage != abi::InitStage::failed;
}

// A communicator in which all that were heard of have the same ranks.
const Communicator* like(const InitKey& key, const Initialization& m, const Watches& watches) {
  const auto first = std::find_if(m.ranks.begin(), m.ranks.end(), [](const auto& r) { return r.second.process; });
  if (first == m.ranks.end()) return nullptr;
  for (const ProcessModel::Membership& member : first->second.process->memberships) {
    const auto it = watches.find(member.comm);
    if (it == watches.end() || it->second->comm.rank_count() != key.rank_count) continue;
    const Communicator& comm = it->second->comm;
    const bool same = std::all_of(m.ranks.begin(), m.ranks.end(), [&](const auto& r) {
      const RankModel* own = comm.rank(Rank{r.first});
      return own && own->process == r.second.process &&
             (r.second.cuda_device < 0 || own->gpu() == r.second.cuda_device);
    });
    if (same) return &comm;
  }
  return nullptr;
}

// GPUs of the job's processes that are not being initialized; at most one more than `most`.
std::vector<InitWait::Member> others(const InitKey& key, const Initialization& m, const ProcessTable& processes,
                                     const Watches& watches, size_t most) {
  std::set<std::pair<const ProcessModel*, int>> in;
  for (const auto& [rank, r] : m.ranks) in.insert({r.process, r.cuda_device});
  std::vector<InitWait::Member> out;
  for (const auto& [id, p] : processes.all()) {
    if (p->job != key.job || out.size() > most) continue;
    std::set<int> devices;
    for (const ProcessModel::Membership& member : p->memberships)
      if (const auto it = watches.find(member.comm); it != watches.end())
        if (const RankModel* r = it->second->comm.rank(member.rank)) devices.insert(r->gpu());
    if (devices.empty()) devices.insert(-1);
    for (int device : devices)
      if (!in.contains({p.get(), device}) && !in.contains({p.get(), -1})) out.push_back({p.get(), device, Rank{-1}});
  }
  return out;
}

}  // namespace

std::string init_name(const InitKey& key) {
  return absl::StrCat("with hash ", absl::Hex(key.comm_hash, absl::kZeroPad16));
}

std::vector<KnownInit> waiting_inits(const InitBook& inits, const ProcessTable& processes, const Watches& watches,
                                     Nanoseconds least_ns, Nanoseconds now_ns) {
  std::vector<KnownInit> out;
  for (const auto& [key, m] : inits.all()) {
    KnownInit k;
    k.key = key;
    k.wait.name = init_name(key);
    k.wait.rank_count = key.rank_count;
    bool failed = false;
    for (const auto& [rank, r] : m.ranks) {
      failed |= r.stage == abi::InitStage::failed;
      if (being_initialized(r) && now_ns - r.entered_ns >= least_ns)
        k.wait.waiting.push_back({r.process, r.cuda_device, Rank{rank}});
    }
    if (failed || k.wait.waiting.empty()) continue;
    const size_t missing = static_cast<size_t>(key.rank_count) - std::min<size_t>(m.ranks.size(), key.rank_count);
    if (missing > 0) {
      if (const Communicator* comm = like(key, m, watches)) {
        for (const RankModel& r : comm->ranks())
          if (!m.ranks.contains(r.rank.value) && r.process) k.wait.missing.push_back({r.process, r.gpu(), r.rank});
      } else {
        k.wait.missing = others(key, m, processes, watches, missing);
        if (k.wait.missing.size() > missing) k.wait.missing.clear();
        // Which of them is which rank is known of the last one only.
        if (missing == 1 && k.wait.missing.size() == 1)
          for (int32_t r = 0; r < key.rank_count; ++r)
            if (!m.ranks.contains(r)) k.wait.missing[0].rank = Rank{r};
      }
      k.all_known = k.wait.missing.size() == missing;
    }
    out.push_back(std::move(k));
  }
  return out;
}

}  // namespace ccld::decision
