#include "decision/analysis/focus.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision {
namespace {

// A communicator whose network was looked at is left out of so many choices, so that the others have their turn.
constexpr uint64_t rests_for = 8;

// Takes ranks in until there are enough.
class Around {
 public:
  Around(const Watches& watches, const std::string& job, size_t gpus_max)
      : watches_(watches), job_(job), gpus_max_(gpus_max) {}

  void take(const RankModel& r) {
    if (!r.process || taken_.size() >= gpus_max_) return;
    taken_.insert({r.process, r.cuda_device});
    if (!known_.insert(r.process).second) return;
    for (const auto& m : r.process->memberships) {
      const auto it = watches_.find(m.comm);
      if (it == watches_.end() || it->second->comm.job() != job_ || !begun_.insert(m.comm).second) continue;
      parts_.push({&it->second->comm, begun_.size(), m.rank.value});
    }
  }
  absl::flat_hash_set<timeline::GpuKey> take_neighbours() && {
    while (!parts_.empty() && taken_.size() < gpus_max_) {
      Part part = parts_.top();
      parts_.pop();
      const RankModel* const r = part.comm->rank(part.next());
      if (part.seen < part.comm->rank_count()) parts_.push(part);
      if (r) take(*r);
    }
    return std::move(taken_);
  }

 private:
  // A communicator that is not whole.
  struct Part {
    const Communicator* comm = nullptr;
    size_t begun = 0;            // its number in the order in which they were met
    int32_t from = 0, seen = 0;  // the first rank that was taken, and how many were
    // The nearest to `from` first, before and behind it: they share hosts and switches.
    Rank next() {
      const int32_t n = comm->rank_count(), away = (seen + 1) / 2, rank = from + (seen % 2 == 1 ? away : n - away);
      ++seen;
      return Rank{rank % n};
    }
    bool operator<(const Part& o) const {  // the smallest is the first, of equal ones the oldest
      return std::pair(comm->rank_count(), begun) > std::pair(o.comm->rank_count(), o.begun);
    }
  };

  const Watches& watches_;
  const std::string& job_;
  const size_t gpus_max_;
  absl::flat_hash_set<timeline::GpuKey> taken_;
  std::set<const ProcessModel*> known_;
  std::set<CommUid> begun_;
  std::priority_queue<Part> parts_;
};

}  // namespace

void Focus::add(Watch& w, const RoundEntry& e) {
  const Communicator& comm = w.comm;
  Nanoseconds least_ns = -1;
  for (const RoundCell& c : e.cells)
    if (c.timed && (least_ns < 0 || c.duration_ns() < least_ns)) least_ns = c.duration_ns();
  if (least_ns < 0 || comm.rank_count() == 0) return;
  if (!w.waits) w.waits = std::make_unique<WaitSums>();
  WaitSums& sums = *w.waits;
  sums.waited_ns.resize(static_cast<size_t>(comm.rank_count()));
  for (size_t r = 0; r < std::min(e.cells.size(), sums.waited_ns.size()); ++r)
    if (e.cells[r].timed) sums.waited_ns[r] += static_cast<float>(e.cells[r].duration_ns() - least_ns);
  sums.transfer_ns += static_cast<double>(least_ns);
}

// The rank at the end of the waits: it waits for nobody, or far less than others wait for it.
const RankModel* Focus::who_is_waited_for(const Watches& watches, const Sums& all) {
  const WaitSums* at = nullptr;
  CommUid comm;
  float most_ns = 0;
  for (const auto& [uid, sums] : all) {
    const float ns = *std::max_element(sums->waited_ns.begin(), sums->waited_ns.end());
    if (!at || ns > most_ns) at = sums, comm = uid, most_ns = ns;
  }
  const RankModel* found = nullptr;
  std::set<CommUid> seen;  // lost reports may make a circle of it
  while (at && seen.insert(comm).second) {
    const auto last = std::min_element(at->waited_ns.begin(), at->waited_ns.end()) - at->waited_ns.begin();
    const RankModel* const rank = watches.at(comm)->comm.rank(Rank{static_cast<int32_t>(last)});
    if (!rank || !rank->process) break;
    found = rank;
    at = nullptr;
    float waits_ns = most_ns / 2;  // for less it would not come so late
    for (const auto& m : found->process->memberships) {
      const auto it = all.find(m.comm);
      if (it == all.end() || static_cast<size_t>(m.rank.value) >= it->second->waited_ns.size()) continue;
      if (const float ns = it->second->waited_ns[static_cast<size_t>(m.rank.value)]; ns > waits_ns)
        at = it->second, comm = m.comm, waits_ns = ns;
    }
    if (at) most_ns = waits_ns;
  }
  return found;
}

const Communicator* Focus::slowest_network(const Watches& watches, const Sums& all) {
  std::map<std::pair<std::string, int>, std::vector<double>> alike;
  const auto kind = [](const Communicator& c) { return std::pair(c.name(), c.rank_count()); };
  for (const auto& [uid, sums] : all) alike[kind(watches.at(uid)->comm)].push_back(sums->transfer_ns);
  std::map<std::pair<std::string, int>, double> usual_ns;
  for (auto& [key, ns] : alike) usual_ns[key] = lower_middle(std::move(ns));
  std::optional<CommUid> worst;
  double most_ns = 0;
  for (const auto& [uid, sums] : all) {
    const auto looked = chosen_.find(uid);
    if (looked != chosen_.end() && looked->second + rests_for > choices_) continue;
    const double ns = sums->transfer_ns - usual_ns[kind(watches.at(uid)->comm)];
    if (!worst || ns > most_ns) worst = uid, most_ns = ns;
  }
  if (!worst) return nullptr;
  chosen_[*worst] = choices_;
  return &watches.at(*worst)->comm;
}

absl::flat_hash_set<timeline::GpuKey> Focus::choose(const Watches& watches, const std::string& job, size_t gpus_max) {
  Around around(watches, job, gpus_max);
  Sums all;
  for (const auto& [uid, w] : watches)
    if (w->waits && w->comm.job() == job) all.emplace(uid, w->waits.get());
  if (++choices_ % 2 == 0) {
    if (const Communicator* const comm = slowest_network(watches, all))
      for (const RankModel& r : comm->ranks()) around.take(r);
  } else if (const RankModel* const rank = who_is_waited_for(watches, all)) {
    around.take(*rank);
  }
  std::erase_if(chosen_, [&](const auto& entry) { return entry.second + rests_for <= choices_; });
  for (const auto& [uid, sums] : all) watches.at(uid)->waits.reset();
  return std::move(around).take_neighbours();
}

}  // namespace ccld::decision
