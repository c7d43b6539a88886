#include "decision/model/init_book.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ccld::decision {
namespace {

using abi::InitStage;

// A failed initialization stays visible for so long.
constexpr Nanoseconds failed_shown_ns = 600 * ns_per_s;
// Ranks repeat themselves every second; a process that has spoken so much later without mentioning it is through.
constexpr Nanoseconds mentioned_ns = 5 * ns_per_s;
// How long it is remembered who was ready first.
constexpr Nanoseconds ready_kept_ns = 60 * ns_per_s;
// They are as many as ranks of all communicators: not looked through at every call.
constexpr Nanoseconds tidy_ready_every_ns = ns_per_s;

}  // namespace

bool under_way(const InitRank& r) {
  return r.stage == InitStage::entered || r.stage == InitStage::bootstrapped || r.stage == InitStage::connected;
}

bool failed(const Initialization& m) {
  return std::any_of(m.ranks.begin(), m.ranks.end(), [](const auto& r) { return r.second.stage == InitStage::failed; });
}

std::vector<Rank> never_heard(const InitKey& key, const Initialization& m, size_t most) {
  std::vector<Rank> missing;
  for (int32_t r = 0; r < key.rank_count && missing.size() < most; ++r)
    if (!m.ranks.contains(r)) missing.push_back(Rank{r});
  return missing;
}

void InitBook::heard(const CommInit& m, const ProcessModel& process, Nanoseconds now_ns) {
  if (m.rank_count <= 0 || static_cast<uint64_t>(m.rank_count) > settings_.ranks_max) return;
  const InitKey key{process.job, m.comm_hash, m.rank_count};
  const auto age = [&](uint32_t ms) { return now_ns - static_cast<Nanoseconds>(ms) * ns_per_ms; };
  if (m.stage == InitStage::none) return;
  auto it = initializations_.find(key);
  if (it == initializations_.end()) {
    if (m.stage == InitStage::ready) return;
    if (!admits_new_ || (initializations_.size() >= initializations_max && !make_room(machine_of(process.id), now_ns))) {
      ++refused_;
      return;
    }
    it = initializations_.emplace(key, Initialization{}).first;
    it->second.entered_ns = age(m.enter_age_ms);
    it->second.machine = machine_of(process.id);
    if (const auto ready = ready_.find(key); ready != ready_.end()) {
      for (const auto& [rank, r] : ready->second) {
        // An earlier communicator with the same hash does not count.
        if (r.ns < it->second.entered_ns) continue;
        it->second.ranks[rank] = {r.process, InitStage::ready, r.ns, r.ns, r.ns, 0, -1, 0};
      }
    }
  }
  Initialization& initialization = it->second;
  if (!initialization.ranks.contains(m.rank.value)) {
    if (!has_room_for_rank(initialization)) {
      ++refused_;
      return;
    }
    ++ranks_;
  }
  InitRank& rank = initialization.ranks[m.rank.value];
  if (rank.process == &process && m.number < rank.number) return;                           // of an earlier attempt
  if (rank.process == &process && m.number == rank.number && m.stage < rank.stage) return;  // late
  rank = {&process, m.stage, age(m.enter_age_ms), age(m.stage_age_ms), now_ns, m.result, m.cuda_device, m.number};
  initialization.entered_ns = std::min(initialization.entered_ns, rank.entered_ns);
  initialization.heard_ns = std::max(initialization.heard_ns, now_ns);
}

void InitBook::up(const CommUp& m, const ProcessModel& process, Nanoseconds now_ns) {
  const InitKey key{process.job, m.comm_hash, m.rank_count};
  if (const auto it = initializations_.find(key); it != initializations_.end()) {
    if (!it->second.ranks.contains(m.rank.value)) {
      if (!has_room_for_rank(it->second)) return;
      ++ranks_;
    }
    InitRank& rank = it->second.ranks[m.rank.value];
    if (rank.stage != InitStage::ready) rank.stage_ns = now_ns;
    rank.process = &process;
    rank.stage = InitStage::ready;
    rank.heard_ns = now_ns;
    if (m.cuda_device >= 0) rank.cuda_device = m.cuda_device;
    return;
  }
  if (admits_new_ && ready_.size() < initializations_max && ready_ranks_ < settings_.ranks_max) {
    const auto [ready, is_new] = ready_[key].try_emplace(m.rank.value, Ready{now_ns, &process});
    ready->second.ns = now_ns;
    ready_ranks_ += is_new ? 1 : 0;
    ready_since_ns_ = std::min(ready_since_ns_, now_ns);
  }
}

namespace {

using Machines = absl::flat_hash_map<std::string_view, size_t>;

Machines machines_of(const std::map<InitKey, Initialization>& initializations) {
  Machines machines;
  for (const auto& [key, m] : initializations) ++machines[m.machine];
  return machines;
}

}  // namespace

// One of a machine that has more of them than this one, or one that nobody repeats; those without an incident first.
bool InitBook::make_room(const std::string& machine, Nanoseconds now_ns) {
  Machines machines = machines_of(initializations_);
  const size_t own = machines[machine];
  auto least = initializations_.end();
  std::tuple<bool, size_t, Nanoseconds> least_order;
  for (auto it = initializations_.begin(); it != initializations_.end(); ++it) {
    const Initialization& m = it->second;
    const size_t theirs = machines[m.machine];
    if (theirs <= own && now_ns - m.heard_ns <= mentioned_ns) continue;
    const std::tuple order(m.incident != 0, SIZE_MAX - theirs, m.heard_ns);
    if (least != initializations_.end() && order >= least_order) continue;
    least = it;
    least_order = order;
  }
  if (least == initializations_.end()) return false;
  if (least->second.incident != 0) left_.push_back(least->second.incident);
  initializations_.erase(least);
  return true;
}

// One takes at most half of the room: of what is left when it has as many, it gets no more.
bool InitBook::has_room_for_rank(const Initialization& m) const {
  return admits_new_ && m.ranks.size() < settings_.ranks_max - std::min<uint64_t>(ranks_, settings_.ranks_max);
}

void InitBook::let_go(double part) {
  Machines machines = machines_of(initializations_);
  std::vector<std::pair<std::pair<size_t, Nanoseconds>, InitKey>> going;
  for (const auto& [key, m] : initializations_)
    if (m.incident == 0) going.push_back({{SIZE_MAX - machines[m.machine], m.heard_ns}, key});
  std::sort(going.begin(), going.end());
  going.resize(std::min(going.size(), static_cast<size_t>(std::ceil(part * static_cast<double>(going.size())))));
  for (const auto& [order, key] : going) initializations_.erase(key);
  forget_who_was_ready();
}

void InitBook::forget_who_was_ready() {
  ready_.clear();
  ready_ranks_ = 0;
}

std::vector<uint64_t> InitBook::tidy(const ProcessTable& processes, Nanoseconds now_ns) {
  std::vector<uint64_t> over = std::exchange(left_, {});
  ranks_ = 0;
  // The process table is about to drop it.
  const auto forgotten = [&](const ProcessModel* p) {
    return p && now_ns - p->heard_ns > seconds_to_ns(settings_.forget_s);
  };
  for (auto it = initializations_.begin(); it != initializations_.end();) {
    const InitKey& key = it->first;
    Initialization& m = it->second;
    std::erase_if(m.ranks, [&](const auto& r) { return forgotten(r.second.process); });
    for (auto& [rank, r] : m.ranks) {
      if (!under_way(r) || !r.process) continue;
      const bool moved_on = r.process->heard_ns > r.heard_ns + mentioned_ns && !processes.silent(*r.process);
      if (moved_on) r.stage = InitStage::ready;
    }
    const bool all_ready =
        m.ranks.size() == static_cast<size_t>(key.rank_count) &&
        std::all_of(m.ranks.begin(), m.ranks.end(), [](const auto& r) { return r.second.stage == InitStage::ready; });
    const bool waits = std::any_of(m.ranks.begin(), m.ranks.end(), [](const auto& r) { return under_way(r.second); });
    const Nanoseconds kept_ns = failed(m) ? failed_shown_ns : waits ? seconds_to_ns(settings_.forget_s) : 0;
    if (all_ready || now_ns - m.heard_ns > kept_ns) {
      if (m.incident != 0) over.push_back(m.incident);
      it = initializations_.erase(it);
    } else {
      ranks_ += m.ranks.size();
      ++it;
    }
  }
  tidy_ready(now_ns);
  return over;
}

void InitBook::tidy_ready(Nanoseconds now_ns) {
  // A process was heard when it got ready, or later. It must go before the process table drops it, which may be just
  // before the next look.
  const Nanoseconds forget_ns = seconds_to_ns(settings_.forget_s) - tidy_ready_every_ns;
  if (now_ns - ready_since_ns_ <= std::min(ready_kept_ns, forget_ns)) return;
  if (now_ns - ready_tidied_ns_ < tidy_ready_every_ns) return;
  ready_tidied_ns_ = now_ns;
  ready_since_ns_ = INT64_MAX;
  ready_ranks_ = 0;
  for (auto it = ready_.begin(); it != ready_.end();) {
    absl::erase_if(it->second, [&](const auto& r) {
      return now_ns - r.second.ns > ready_kept_ns || now_ns - r.second.process->heard_ns > forget_ns;
    });
    for (const auto& [rank, r] : it->second) ready_since_ns_ = std::min(ready_since_ns_, r.ns);
    ready_ranks_ += it->second.size();
    it = it->second.empty() ? ready_.erase(it) : std::next(it);
  }
}

absl::flat_hash_set<const ProcessModel*> InitBook::processes() const {
  absl::flat_hash_set<const ProcessModel*> found;
  for (const auto& [key, m] : initializations_)
    for (const auto& [rank, r] : m.ranks) found.insert(r.process);
  for (const auto& [key, ranks] : ready_)
    for (const auto& [rank, r] : ranks) found.insert(r.process);
  return found;
}

InitStatus init_status(const InitKey& key, const Initialization& m, Nanoseconds now_ns) {
  constexpr size_t missing_shown_max = 64;
  InitStatus s;
  s.job = key.job;
  s.comm_hash = key.comm_hash;
  s.rank_count = key.rank_count;
  s.age_ns = now_ns - m.entered_ns;
  s.failed = failed(m);
  for (const auto& [rank, r] : m.ranks) {
    InitRankStatus row;
    row.rank = Rank{rank};
    if (r.process) {
      row.host = r.process->id.host;
      row.pid = r.process->id.pid;
    }
    row.stage = r.stage;
    row.stage_age_ns = now_ns - r.stage_ns;
    row.result = r.result;
    s.ranks.push_back(std::move(row));
  }
  s.never_heard_count = static_cast<size_t>(key.rank_count) - std::min<size_t>(m.ranks.size(), key.rank_count);
  s.never_heard = never_heard(key, m, missing_shown_max);
  return s;
}

}  // namespace ccld::decision
