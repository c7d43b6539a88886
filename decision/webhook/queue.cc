#include "decision/webhook/queue.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::webhook {

std::vector<size_t> DeliveryQueue::first_of_each_incident() const {
  std::vector<size_t> first;
  absl::flat_hash_set<uint64_t> seen;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (seen.insert(entries_[i].delivery.incident).second) first.push_back(i);
  return first;
}

void DeliveryQueue::remove(size_t at) {
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  counters_.queue_length = entries_.size();
}

void DeliveryQueue::make_room() {
  std::optional<size_t> replaced, oldest;
  absl::flat_hash_set<uint64_t> newer;
  for (size_t i = entries_.size(); i-- > 0;) {
    const bool has_newer = !newer.insert(entries_[i].delivery.incident).second;
    if (entries_[i].sending) continue;
    oldest = i;
    if (has_newer) replaced = i;
  }
  if (!oldest.has_value()) return;
  uint64_t& count = replaced.has_value() ? counters_.replaced : counters_.dropped;
  if (++count == 1) {
    spdlog::warn("webhook: {} deliveries wait, there is no room for more: {}", entries_.size(),
                 replaced.has_value() ? "newer revisions go instead of older ones" : "the oldest is dropped");
  }
  remove(replaced.value_or(*oldest));
}

// An incident that is open again after it closed is told from there on.
void DeliveryQueue::remove_up_to_closed(uint64_t incident) {
  size_t closed = entries_.size();
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].delivery.incident == incident && entries_[i].delivery.event == Event::closed) closed = i;
  if (closed == entries_.size()) return;
  silenced_.push_back(entries_[closed].delivery);
  size_t at = 0;
  counters_.silenced += std::erase_if(entries_, [&](const Entry& e) { return at++ <= closed && e.delivery.incident == incident; });
  counters_.queue_length = entries_.size();
}

// Whether this one is not to be sent now.
bool DeliveryQueue::hold(size_t at, Nanoseconds now_ns, int64_t realtime_ms) {
  Entry& e = entries_[at];
  if (!held_ || !held_(e.delivery, realtime_ms)) return false;
  e.due_ns = now_ns + limits_.held_look_ns;
  e.delivery.made_ms = realtime_ms;  // it is kept back, not undeliverable
  return true;
}

void DeliveryQueue::put(Delivery delivery) {
  entries_.push_back({.delivery = std::move(delivery)});
  if (entries_.size() > limits_.deliveries_max) make_room();
  counters_.queue_length = entries_.size();
}

std::optional<Delivery> DeliveryQueue::take(Nanoseconds now_ns, int64_t realtime_ms) {
  for (;;) {
    Entry* next = nullptr;
    size_t at = 0;
    std::vector<uint64_t> held;
    for (const size_t i : first_of_each_incident()) {
      Entry& e = entries_[i];
      if (e.sending || e.due_ns > now_ns) continue;
      if (hold(i, now_ns, realtime_ms)) held.push_back(e.delivery.incident);
      else if (next == nullptr || e.due_ns < next->due_ns) next = &e, at = i;
    }
    if (!held.empty()) {
      const size_t before = entries_.size();
      for (const uint64_t incident : held) remove_up_to_closed(incident);
      if (entries_.size() != before) continue;  // positions have changed
    }
    if (next == nullptr) return std::nullopt;
    if (realtime_ms - next->delivery.made_ms <= limits_.give_up_ms) {
      next->sending = true;
      return next->delivery;
    }
    ++counters_.given_up;
    spdlog::error("webhook: delivery {} is given up after {} attempts", next->delivery.id, next->attempts);
    remove(at);
  }
}

void DeliveryQueue::done(Outcome outcome, Nanoseconds now_ns, Nanoseconds not_before_ns) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.sending; });
  if (entry == entries_.end()) return;
  if (outcome != Outcome::delivered) ++counters_.failed_attempts;
  if (outcome != Outcome::failed) {
    ++(outcome == Outcome::delivered ? counters_.delivered : counters_.refused);
    return remove(static_cast<size_t>(entry - entries_.begin()));
  }
  entry->sending = false;
  constexpr unsigned doublings_max = 30;
  const Nanoseconds delay_ns = std::min(limits_.delay_max_ns, limits_.delay_first_ns << std::min(entry->attempts++, doublings_max));
  entry->due_ns = std::max(now_ns + static_cast<Nanoseconds>(static_cast<double>(delay_ns) * (0.5 + 0.5 * chance_())),
                           std::min(not_before_ns, now_ns + limits_.delay_max_ns));
}

std::optional<Nanoseconds> DeliveryQueue::due_ns() const {
  std::optional<Nanoseconds> due;
  for (const size_t i : first_of_each_incident()) {
    if (entries_[i].sending) continue;
    due = std::min(due.value_or(entries_[i].due_ns), entries_[i].due_ns);
  }
  return due;
}

}  // namespace ccld::decision::webhook
