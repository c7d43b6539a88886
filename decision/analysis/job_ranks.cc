#include "decision/analysis/job_ranks.h"

#include <utility>

#include "absl/container/flat_hash_set.h"

namespace ccld::decision {
namespace {

// The communicator that has all GPUs of the job; 0: there is none.
CommUid find_world(const std::string& job, const Watches& watches) {
  const Communicator* largest = nullptr;
  for (const auto& [uid, w] : watches)
    if (w->comm.job() == job && (!largest || w->comm.rank_count() > largest->rank_count())) largest = &w->comm;
  if (!largest || largest->rank_count() <= 0) return CommUid{};
  const auto count = static_cast<size_t>(largest->rank_count());
  absl::flat_hash_set<std::pair<const ProcessModel*, int>> gpus;
  const auto add = [&](const Communicator& comm) {
    comm.visit_ranks([&](const RankModel& r) {
      if (r.process) gpus.insert({r.process, r.gpu()});
    });
  };
  add(*largest);
  if (gpus.size() != count) return CommUid{};
  for (const auto& [uid, w] : watches) {
    if (w->comm.job() != job || &w->comm == largest) continue;
    add(w->comm);
    if (gpus.size() != count) return CommUid{};
  }
  return largest->uid();
}

}  // namespace

const Communicator* JobRanks::world_of(const std::string& job, const Watches& watches, Nanoseconds now_ns) {
  const auto [world, fresh] = worlds_.try_emplace(job);
  if (fresh) world->second = {find_world(job, watches), now_ns};
  const auto watch = watches.find(world->second.comm);
  return watch == watches.end() ? nullptr : &watch->second->comm;
}

void JobRanks::name(IncidentBook& book, const Watches& watches, Nanoseconds now_ns) {
  std::erase_if(worlds_, [&](const auto& world) { return now_ns - world.second.found_ns >= known_for_ns; });
  book.visit_changed([&](Incident& i) {
    const auto home = watches.find(i.comm);
    if (!is_open(i.state) || home == watches.end() || i.culprits.empty()) return;
    const Communicator* const world = world_of(i.job, watches, now_ns);
    if (!world) return;
    for (Culprit& c : i.culprits) {
      const RankModel* r = home->second->comm.rank(c.rank);
      if (!r || !r->process) continue;
      for (const ProcessModel::Membership& m : r->process->memberships) {
        const RankModel* there = m.comm == world->uid() ? world->rank(m.rank) : nullptr;
        if (there && there->gpu() == r->gpu()) c.job_rank = m.rank;
      }
    }
  });
}

}  // namespace ccld::decision
