#include "probe/transport/endpoints.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {

uint64_t endpoint_choice(std::string_view host, uint32_t pid, uint32_t pid_namespace) {
  // FNV-1a, and the end of MurmurHash3: the lowest bits alone decide.
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char c : host) add(static_cast<uint8_t>(c));
  for (const uint32_t word : {pid, pid_namespace})
    for (unsigned shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(word >> shift));
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

Endpoints::Endpoints(const std::vector<std::string>& list, uint64_t choice, bool keys)
    : in_use_(static_cast<size_t>(choice % list.size())) {
  for (const std::string& endpoint : list) places_.push_back({endpoint, LinkTracker(keys), Retry()});
}

uint64_t Endpoints::handshakes() const {
  uint64_t all = 0;
  for (const Place& place : places_) all += place.tracker.handshakes();
  return all;
}

void Endpoints::heard() {
  unanswered_ = false;
  without_ns_ = misses_ = 0;
}

void Endpoints::not_connected(uint64_t now_ns) {
  used().retry.postpone(now_ns);
  away_ = true;
}

Endpoints::Step Endpoints::next(uint64_t now_ns) {
  const uint64_t last_ns = std::exchange(looked_ns_, std::max(now_ns, looked_ns_));
  const uint64_t ran_ns = last_ns == 0 ? 0 : std::min(looked_ns_ - last_ns, endpoint_look_ns_max);
  if (away_) return connect(now_ns);
  if (used().retry.next(used().tracker, now_ns) == Retry::Step::leave) return leave();
  if (size() == 1) return Step::none;
  const bool up = link(now_ns) == Link::up;
  here_ns_ += ran_ns;
  if (!up) without_ns_ += ran_ns;
  const uint64_t lost_ns = !up ? without_ns_ : unanswered_ ? here_ns_ : 0;
  return lost_ns >= wait_ns(now_ns) && another_is_due(now_ns) ? leave() : Step::none;
}

Endpoints::Step Endpoints::leave() {
  used().tracker.left();
  ++times_left_;
  ++misses_;
  away_ = true;
  return Step::leave;
}

// The next one in order that is due; the one that was left is the last.
Endpoints::Step Endpoints::connect(uint64_t now_ns) {
  for (size_t i = 1; i <= size(); ++i) {
    const size_t index = (in_use_ + i) % size();
    Place& place = places_[index];
    if (!place.retry.due(now_ns)) continue;
    if (place.retry.away()) place.retry.next(place.tracker, now_ns);
    moves_ += index != in_use_;
    in_use_ = index;
    away_ = unanswered_ = false;
    here_ns_ = without_ns_ = 0;
    return Step::connect;
  }
  return Step::none;
}

bool Endpoints::another_is_due(uint64_t now_ns) const {
  for (size_t i = 0; i < size(); ++i)
    if (i != in_use_ && places_[i].retry.due(now_ns)) return true;
  return false;
}

uint64_t Endpoints::wait_ns(uint64_t now_ns) const {
  const Link link = this->link(now_ns);
  if (link == Link::refused || link == Link::unresolved) return endpoint_wait_ns;
  uint64_t wait = endpoint_wait_ns;
  for (uint64_t rounds = misses_ / size(); rounds > 0 && wait < endpoint_wait_ns_max; --rounds) wait *= 2;
  return wait;
}

}  // namespace ccld::probe
