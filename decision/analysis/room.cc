#include "decision/analysis/room.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {
namespace {

Worth worth_of(const Watch& w, Nanoseconds silent_since_ns) {
  const Communicator& c = w.comm;
  int spoken = 0;
  c.visit_ranks([&spoken](const RankModel& r) { spoken += r.process != nullptr ? 1 : 0; });
  if (!c.rank_count_known() || spoken < c.rank_count()) return Worth::claimed;
  const bool busy = c.ranks_in_flight() > 0 || c.ranks_in_replay() > 0 || c.ranks_in_p2p() > 0;
  return busy && c.heard_ns() > silent_since_ns ? Worth::at_work : Worth::at_rest;
}

// Of the rank that spoke first of those that are known.
std::string_view machine_of(const Communicator& c) {
  for (const RankModel& r : c.ranks())
    if (r.process != nullptr) return decision::machine_of(r.process->id);
  return {};
}

struct Candidate {
  Worth worth;
  size_t of_machine;
  Nanoseconds heard_ns;
  CommUid uid;
  // Those that go first are less.
  auto order() const { return std::tuple(worth, SIZE_MAX - of_machine, heard_ns, uid); }
};

using Machines = absl::flat_hash_map<std::string_view, size_t>;

Machines machines_of(const Watches& watches) {
  Machines of_machines;
  for (const auto& [uid, w] : watches) ++of_machines[machine_of(w->comm)];
  return of_machines;
}

std::vector<CommUid> first_of(std::vector<Candidate> candidates, size_t count) {
  count = std::min(count, candidates.size());
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates.begin(), end, candidates.end(),
                    [](const Candidate& a, const Candidate& b) { return a.order() < b.order(); });
  std::vector<CommUid> found;
  for (auto it = candidates.begin(); it != end; ++it) found.push_back(it->uid);
  return found;
}

}  // namespace

std::vector<CommUid> least_missed(const Watches& watches, const absl::flat_hash_set<CommUid>& needed, size_t count,
                                  Worth up_to, Nanoseconds silent_since_ns) {
  Machines of_machines = machines_of(watches);
  std::vector<Candidate> candidates;
  candidates.reserve(watches.size());
  for (const auto& [uid, w] : watches) {
    const Worth worth = needed.contains(uid) ? Worth::needed : worth_of(*w, silent_since_ns);
    if (worth > up_to) continue;
    candidates.push_back({worth, of_machines[machine_of(w->comm)], w->comm.heard_ns(), uid});
  }
  return first_of(std::move(candidates), count);
}

std::vector<CommUid> claims_that_make_way(const Watches& watches, const absl::flat_hash_set<CommUid>& needed,
                                          size_t count, std::string_view machine, Nanoseconds silent_since_ns) {
  Machines of_machines = machines_of(watches);
  const size_t own = of_machines[machine];
  std::vector<Candidate> candidates;
  for (const auto& [uid, w] : watches) {
    const size_t theirs = of_machines[machine_of(w->comm)];
    if (needed.contains(uid) || w->comm.room_taken() == 0 || (theirs <= own && w->comm.heard_ns() > silent_since_ns))
      continue;
    if (worth_of(*w, INT64_MIN) == Worth::claimed)
      candidates.push_back({Worth::claimed, theirs, w->comm.heard_ns(), uid});
  }
  return first_of(std::move(candidates), count);
}

}  // namespace ccld::decision
