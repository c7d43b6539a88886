#include "decision/analysis/init_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
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

// GPUs of each job's processes; -1: one of which none is known. Looked for once, however many initializations wait.
class GpusOfJobs {
 public:
  using Gpu = std::pair<const ProcessModel*, int>;
  GpusOfJobs(const ProcessTable& processes, const Watches& watches) : processes_(processes), watches_(watches) {}
  const std::vector<Gpu>& of(const std::string& job) {
    if (!std::exchange(found_, true)) find();
    return gpus_[job];
  }

 private:
  void find() {
    for (const auto& [id, p] : processes_.all()) {
      std::set<int> devices;
      for (const ProcessModel::Membership& member : p->memberships)
        if (const auto it = watches_.find(member.comm); it != watches_.end())
          if (const RankModel* r = it->second->comm.rank(member.rank)) devices.insert(r->gpu());
      if (devices.empty()) devices.insert(-1);
      for (int device : devices) gpus_[p->job].emplace_back(p.get(), device);
    }
  }
  const ProcessTable& processes_;
  const Watches& watches_;
  bool found_ = false;
  std::map<std::string, std::vector<Gpu>> gpus_;
};

// GPUs of the job that are not being initialized; at most one more than `most`.
std::vector<InitWait::Member> others(const std::vector<GpusOfJobs::Gpu>& gpus, const KnownInit& known,
                                     const Initialization& m, size_t most) {
  std::set<GpusOfJobs::Gpu> in;
  std::set<const ProcessModel*> processes;
  for (const auto& [rank, r] : m.ranks) in.insert({r.process, r.cuda_device}), processes.insert(r.process);
  const auto comes = [&](const GpusOfJobs::Gpu& gpu) {
    return in.contains(gpu) || in.contains({gpu.first, -1}) || (gpu.second < 0 && processes.contains(gpu.first));
  };
  std::vector<InitWait::Member> out;
  for (const GpusOfJobs::Gpu& gpu : gpus) {
    if (out.size() > most) break;
    if (known.may_miss(*gpu.first) && !comes(gpu)) out.push_back({gpu.first, gpu.second, Rank{-1}});
  }
  return out;
}

}  // namespace

ConnectedProcesses::ConnectedProcesses(const ProcessTable& processes, const Watches& watches) {
  std::vector<const ProcessModel*> queue;
  absl::flat_hash_set<CommUid> seen;
  int part = 0;
  for (const auto& [id, first] : processes.all()) {
    const auto add = [&](const ProcessModel* p) {
      if (p && parts_.try_emplace(p, part).second) queue.push_back(p);
    };
    add(first.get());
    if (queue.empty()) continue;
    while (!queue.empty()) {
      const ProcessModel& p = *queue.back();
      queue.pop_back();
      for (const ProcessModel::Membership& member : p.memberships)
        if (const auto it = watches.find(member.comm); it != watches.end() && seen.insert(member.comm).second)
          for (const RankModel& r : it->second->comm.ranks()) add(r.process);
    }
    ++part;
  }
}

int ConnectedProcesses::part_of(const ProcessModel& p) const {
  const auto it = parts_.find(&p);
  return it == parts_.end() ? -1 : it->second;
}

std::string init_name(const InitKey& key) {
  return absl::StrCat("with hash ", absl::Hex(key.comm_hash, absl::kZeroPad16));
}

std::vector<KnownInit> waiting_inits(const InitBook& inits, const ProcessTable& processes, const Watches& watches,
                                     Nanoseconds least_ns, Nanoseconds now_ns) {
  std::vector<KnownInit> out;
  GpusOfJobs gpus(processes, watches);
  std::shared_ptr<const ConnectedProcesses> parts;
  for (const auto& [key, m] : inits.all()) {
    KnownInit k;
    k.key = key;
    k.wait.name = init_name(key);
    k.wait.rank_count = key.rank_count;
    for (const auto& [rank, r] : m.ranks) {
      if (being_initialized(r) && now_ns - r.entered_ns >= least_ns)
        k.wait.waiting.push_back({r.process, r.cuda_device, Rank{rank}});
    }
    if (k.wait.waiting.empty()) continue;
    const size_t missing = static_cast<size_t>(key.rank_count) - std::min<size_t>(m.ranks.size(), key.rank_count);
    if (missing > 0 && !failed(m)) {
      if (!abi::is_named(key.job)) {
        if (!parts) parts = std::make_shared<const ConnectedProcesses>(processes, watches);
        k.parts = parts;
        for (const auto& [rank, r] : m.ranks)
          if (r.process) k.parts_that_came.insert(parts->part_of(*r.process));
      }
      if (const Communicator* comm = like(key, m, watches)) {
        for (const RankModel& r : comm->ranks())
          if (!m.ranks.contains(r.rank.value) && r.process) k.wait.missing.push_back({r.process, r.gpu(), r.rank});
      } else {
        k.wait.missing = others(gpus.of(key.job), k, m, missing);
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
