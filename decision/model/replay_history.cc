#include "decision/model/replay_history.h"

#include <algorithm>

namespace ccld::decision {

bool ReplayHistory::round(RoundKey key, Rank rank, const Signature& signature, const RoundCell& cell) {
  if (key.op.value == 0 || key.replay == 0 || rank.value < 0) return false;
  if (rank_count_ > 0 && rank.value >= rank_count_) return false;
  if (const auto taken = taken_.find(key.op.value); taken != taken_.end() && key.replay <= taken->second) return false;
  const auto [it, added] = entries_.try_emplace(key);
  Entry& e = it->second;
  if (added) {
    e.signature = signature;
    by_age_.push_back(key);
  }
  const auto [own, first] = e.cells.try_emplace(rank.value, cell);
  if (!first) return false;
  own->second.group = 0;
  own->second.reported = true;
  if (rank_count_ > 0 && e.cells.size() == static_cast<size_t>(rank_count_)) complete_.push_back(key);

  // A cell here is twice as large as one of RoundHistory.
  const size_t cells = 2 * static_cast<size_t>(std::max(rank_count_, 1));
  const size_t limit =
      std::max<size_t>(8, std::min<size_t>(settings_.rounds_kept_max, settings_.round_cells_max / cells));
  while (!by_age_.empty() && (entries_.size() > limit || !entries_.contains(by_age_.front()))) {
    const auto oldest = entries_.find(by_age_.front());
    if (oldest != entries_.end()) {
      const bool complete = rank_count_ > 0 && oldest->second.cells.size() >= static_cast<size_t>(rank_count_);
      if (complete) break;  // it is about to be taken
      entries_.erase(oldest);
      ++evicted_;
    }
    by_age_.pop_front();
  }
  return true;
}

uint32_t ReplayHistory::newest_complete(OpSeq op) const {
  const auto taken = taken_.find(op.value);
  return taken == taken_.end() ? 0 : taken->second;
}

bool ReplayHistory::reported(RoundKey key, Rank rank) const {
  if (key.replay <= newest_complete(key.op)) return true;
  const auto it = entries_.find(key);
  return it != entries_.end() && it->second.cells.contains(rank.value);
}

std::vector<RoundEntry> ReplayHistory::take_complete() {
  std::vector<RoundEntry> out;
  std::sort(complete_.begin(), complete_.end());
  for (const RoundKey& key : complete_) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) continue;
    RoundEntry& e = out.emplace_back();
    e.op = key.op;
    e.replay = key.replay;
    e.reported = static_cast<uint32_t>(it->second.cells.size());
    e.groups.push_back({it->second.signature, e.reported});
    e.cells.resize(e.reported);
    for (const auto& [rank, cell] : it->second.cells) e.cells[rank] = cell;
    entries_.erase(it);
    if (taken_.size() >= operations_max) taken_.clear();
    taken_[key.op.value] = std::max(taken_[key.op.value], key.replay);
    ++rounds_;
  }
  complete_.clear();
  return out;
}

}  // namespace ccld::decision
