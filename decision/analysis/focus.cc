#include "decision/analysis/focus.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision {
namespace {

// A communicator whose network was looked at is left out of so many choices, so that the others have their turn.
constexpr uint64_t rests_for = 8;

const RankModel* rank_in(const Watches& watches, const ProcessModel::Membership& m) {
  const auto it = watches.find(m.comm);
  return it == watches.end() ? nullptr : it->second->comm.rank(m.rank);
}

}  // namespace

void Focus::add(const Communicator& comm, const RoundEntry& e) {
  Nanoseconds least_ns = -1;
  for (const RoundCell& c : e.cells)
    if (c.timed && (least_ns < 0 || c.duration_ns() < least_ns)) least_ns = c.duration_ns();
  if (least_ns < 0 || comm.rank_count() == 0) return;
  Sums& sums = sums_[comm.uid()];
  sums.waited_ns.resize(static_cast<size_t>(comm.rank_count()));
  for (size_t r = 0; r < std::min(e.cells.size(), sums.waited_ns.size()); ++r)
    if (e.cells[r].timed) sums.waited_ns[r] += static_cast<float>(e.cells[r].duration_ns() - least_ns);
  sums.transfer_ns += static_cast<double>(least_ns);
}

// The process at the end of the waits: it waits for nobody, or far less than others wait for it.
Focus::Seed Focus::who_is_waited_for(const Watches& watches) const {
  const Sums* at = nullptr;
  CommUid comm;
  float most_ns = 0;
  for (const auto& [uid, sums] : sums_) {
    const float ns = *std::max_element(sums.waited_ns.begin(), sums.waited_ns.end());
    if (watches.contains(uid) && (!at || ns > most_ns)) at = &sums, comm = uid, most_ns = ns;
  }
  Seed found = nullptr;
  std::set<CommUid> seen;  // lost reports may make a circle of it
  while (at && seen.insert(comm).second) {
    const auto last = std::min_element(at->waited_ns.begin(), at->waited_ns.end()) - at->waited_ns.begin();
    const RankModel* const rank = watches.at(comm)->comm.rank(Rank{static_cast<int32_t>(last)});
    if (!rank || !rank->process) break;
    found = rank->process;
    at = nullptr;
    float waits_ns = most_ns / 2;  // for less it would not come so late
    for (const auto& m : found->memberships) {
      const auto it = sums_.find(m.comm);
      if (it == sums_.end() || !watches.contains(m.comm) ||
          static_cast<size_t>(m.rank.value) >= it->second.waited_ns.size())
        continue;
      if (const float ns = it->second.waited_ns[static_cast<size_t>(m.rank.value)]; ns > waits_ns)
        at = &it->second, comm = m.comm, waits_ns = ns;
    }
    if (at) most_ns = waits_ns;
  }
  return found;
}

Focus::Seed Focus::in_the_slowest_network(const Watches& watches) {
  std::map<std::pair<std::string, int>, std::vector<double>> alike;
  const auto kind = [](const Communicator& c) { return std::pair(c.name(), c.rank_count()); };
  for (const auto& [uid, sums] : sums_)
    if (const auto it = watches.find(uid); it != watches.end())
      alike[kind(it->second->comm)].push_back(sums.transfer_ns);
  std::map<std::pair<std::string, int>, double> usual_ns;
  for (auto& [key, ns] : alike) usual_ns[key] = lower_middle(std::move(ns));
  std::optional<CommUid> worst;
  double most_ns = 0;
  for (const auto& [uid, sums] : sums_) {
    const auto it = watches.find(uid), end = watches.end();
    const auto looked = chosen_.find(uid);
    if (it == end || (looked != chosen_.end() && looked->second + rests_for > choices_)) continue;
    const double ns = sums.transfer_ns - usual_ns[kind(it->second->comm)];
    if (!worst || ns > most_ns) worst = uid, most_ns = ns;
  }
  if (!worst) return nullptr;
  chosen_[*worst] = choices_;
  for (const RankModel& r : watches.at(*worst)->comm.ranks())
    if (r.process) return r.process;
  return nullptr;
}

absl::flat_hash_set<whatif::GpuKey> Focus::choose(const Watches& watches, const std::string& job, size_t gpus_max) {
  absl::flat_hash_set<whatif::GpuKey> out;
  ++choices_;
  const bool network = choices_ % 2 == 0;
  const Seed seed = network ? in_the_slowest_network(watches) : who_is_waited_for(watches);
  std::erase_if(chosen_, [&](const auto& entry) { return entry.second + rests_for <= choices_; });
  sums_.clear();
  if (!seed) return out;
  std::deque<const ProcessModel*> next{seed};
  std::set<const ProcessModel*> known{seed};
  std::set<CommUid> taken;
  const auto take = [&](const RankModel& r) {
    if (!r.process || out.size() >= gpus_max) return;
    out.insert({r.process, r.cuda_device});
    if (known.insert(r.process).second) next.push_back(r.process);
  };
  while (!next.empty() && out.size() < gpus_max) {
    const ProcessModel* const process = next.front();
    next.pop_front();
    std::vector<std::pair<int, ProcessModel::Membership>> of;
    for (const auto& m : process->memberships)
      if (const auto it = watches.find(m.comm); it != watches.end() && it->second->comm.job() == job)
        of.emplace_back(it->second->comm.rank_count(), m);
    std::stable_sort(of.begin(), of.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [size, m] : of) {
      if (const RankModel* const own = rank_in(watches, m)) take(*own);
      if (out.size() + static_cast<size_t>(size) > gpus_max || !taken.insert(m.comm).second) continue;
      for (const RankModel& r : watches.at(m.comm)->comm.ranks()) take(r);
    }
    if (!next.empty() || of.empty()) continue;
    // The rest of one that is too large: from this rank on.
    const Communicator& comm = watches.at(of.back().second.comm)->comm;
    for (int i = 0; i < comm.rank_count() && out.size() < gpus_max; ++i)
      if (const RankModel* const r = comm.rank(Rank{(of.back().second.rank.value + i) % comm.rank_count()})) take(*r);
  }
  return out;
}

}  // namespace ccld::decision
