#include "decision/ingest/sequence_tracker.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace ccld::decision::ingest {
namespace {

constexpr uint64_t window = 64;  // bits of Entry::missing

}  // namespace

SequenceTracker::SequenceTracker(size_t processes_max) : processes_max_(std::max<size_t>(processes_max, 1)) {}

void SequenceTracker::unlink(uint32_t place) {
  const Entry& e = entries_[place];
  (e.newer == nobody ? newest_ : entries_[e.newer].older) = e.older;
  (e.older == nobody ? oldest_ : entries_[e.older].newer) = e.newer;
}

void SequenceTracker::link_as_newest(uint32_t place) {
  Entry& e = entries_[place];
  e.newer = nobody;
  e.older = newest_;
  (newest_ == nobody ? oldest_ : entries_[newest_].newer) = place;
  newest_ = place;
}

SequenceTracker::Result SequenceTracker::record(const ProcessId& process, uint64_t batch_seq, uint64_t sent_ns) {
  const uint64_t identity = absl::HashOf(process.host, process.boot_id, process.pid, process.pid_start_ticks, process.pid_namespace);
  const auto found = places_.find(identity);
  if (found == places_.end()) {
    uint32_t place = static_cast<uint32_t>(entries_.size());
    if (entries_.size() >= processes_max_) {
      place = oldest_;
      places_.erase(entries_[place].identity);
      unlink(place);
    } else {
      entries_.emplace_back();
    }
    entries_[place].identity = identity;
    entries_[place].newest = {batch_seq, sent_ns};
    entries_[place].missing = 0;
    places_.emplace(identity, place);
    link_as_newest(place);
    return {};
  }
  Entry& entry = entries_[found->second];
  if (newest_ != found->second) {
    unlink(found->second);
    link_as_newest(found->second);
  }
  const uint64_t last_seq = entry.newest.seq;
  switch (entry.newest.take(batch_seq, sent_ns)) {
    case Image::next: entry.missing = 0; return {};
    case Image::before: return {Arrival::late, 0};
    case Image::same: break;
  }
  if (batch_seq <= last_seq) {
    const uint64_t behind = last_seq - batch_seq;
    if (behind >= window) return {Arrival::late, 0};
    const uint64_t bit = uint64_t{1} << behind;
    if ((entry.missing & bit) == 0) return {Arrival::repeated, 0};
    entry.missing &= ~bit;
    return {Arrival::late, 0};
  }
  const uint64_t lost = batch_seq - last_seq - 1;
  const uint64_t shift = lost + 1;
  entry.missing = shift >= window ? 0 : entry.missing << shift;
  const uint64_t new_gap = std::min(lost, window - 1);  // bits 1..new_gap
  if (new_gap > 0) entry.missing |= (~uint64_t{0} >> (window - new_gap)) << 1;
  return {lost == 0 ? Arrival::in_order : Arrival::after_gap, lost};
}

}  // namespace ccld::decision::ingest
