#include "decision/analysis/call_records.h"

#include <set>

namespace ccld::decision {

void CallRecords::choose(const IncidentBook& book, const Watches& watches) {
  cells_ = 0;
  std::set<CommUid> wanted;
  std::vector<CommUid> by_age;
  book.visit_open([&](const Incident& i) {
    if (watches.contains(i.comm) && wanted.insert(i.comm).second) by_age.push_back(i.comm);
  });
  std::erase_if(kept_, [&](const auto& entry) {
    if (wanted.contains(entry.first)) return false;
    ranks_ -= entry.second.ranks;
    return true;
  });
  for (const CommUid comm : by_age) {
    const auto ranks = static_cast<size_t>(watches.at(comm)->comm.rank_count());
    if (kept_.contains(comm) || ranks_ + ranks > ranks_max) continue;
    kept_[comm].ranks = ranks;
    ranks_ += ranks;
  }
}

void CallRecords::add(CommUid comm, const RoundEntry& e, Nanoseconds now_ns) {
  if (kept_.empty()) return;
  const auto it = kept_.find(comm);
  if (it == kept_.end() || cells_ + e.cells.size() > cells_max || e.cells.size() > it->second.ranks) return;
  cells_ += e.cells.size();
  it->second.record.add(recorded_call(e, now_ns));
}

std::vector<CommCalls> CallRecords::all() const {
  std::vector<CommCalls> all;
  all.reserve(kept_.size());
  for (const auto& [comm, kept] : kept_) all.push_back({comm, kept.record.calls()});
  return all;
}

}  // namespace ccld::decision
