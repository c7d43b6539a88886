#include "decision/ingest/sequence_tracker.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace ccld::decision::ingest {
namespace {

constexpr uint64_t window = 64;  // bits of Entry::missing

}  // namespace

SequenceTracker::SequenceTracker(size_t processes_max) : processes_max_(std::max<size_t>(processes_max, 1)) {}

size_t SequenceTracker::Hash::operator()(const ProcessId& p) const {
  return absl::HashOf(p.host, p.boot_id, p.pid, p.pid_start_ticks);
}

SequenceTracker::Result SequenceTracker::record(const ProcessId& process, uint64_t batch_seq) {
  const auto found = entries_.find(process);
  if (found == entries_.end()) {
    if (entries_.size() >= processes_max_) {
      entries_.erase(by_age_.back());
      by_age_.pop_back();
    }
    by_age_.push_front(process);
    entries_.emplace(process, Entry{batch_seq, 0, by_age_.begin()});
    return {};
  }
  Entry& entry = found->second;
  by_age_.splice(by_age_.begin(), by_age_, entry.age);
  if (batch_seq <= entry.last_seq) {
    const uint64_t behind = entry.last_seq - batch_seq;
    if (behind >= window) return {Arrival::late, 0};
    const uint64_t bit = uint64_t{1} << behind;
    if ((entry.missing & bit) == 0) return {Arrival::repeated, 0};
    entry.missing &= ~bit;
    return {Arrival::late, 0};
  }
  const uint64_t lost = batch_seq - entry.last_seq - 1;
  const uint64_t shift = lost + 1;
  entry.missing = shift >= window ? 0 : entry.missing << shift;
  const uint64_t new_gap = std::min(lost, window - 1);  // bits 1..new_gap
  if (new_gap > 0) entry.missing |= (~uint64_t{0} >> (window - new_gap)) << 1;
  entry.last_seq = batch_seq;
  return {lost == 0 ? Arrival::in_order : Arrival::after_gap, lost};
}

}  // namespace ccld::decision::ingest
