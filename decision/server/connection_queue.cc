#include "decision/server/connection_queue.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace ccld::decision::server {

std::optional<ConnectionQueue::Lost> ConnectionQueue::add(Connection connection, Nanoseconds until_ns) {
  const uint64_t newcomer = connection.id;
  ++shares_[connection.address].waiting;
  waiting_.push_back({std::move(connection), until_ns, false});
  if (waiting_.size() <= limits_.waiting_max) return std::nullopt;
  const Position lost = to_give_way();
  const bool pushed_out = !lost->ready && lost->connection.id != newcomer;
  return Lost{take(lost), pushed_out ? report::HttpRefusal::pushed_out : report::HttpRefusal::no_room};
}

ConnectionQueue::Position ConnectionQueue::to_give_way() {
  size_t most = 0;
  for (const auto& [address, share] : shares_) most = std::max(most, share.waiting);
  const auto has_most = [&](const Waiting& w) { return shares_.find(w.connection.address)->second.waiting == most; };
  const auto silent =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return !w.ready && has_most(w); });
  if (silent != waiting_.end()) return silent;
  return std::prev(std::find_if(waiting_.rbegin(), waiting_.rend(), has_most).base());
}

const ConnectionQueue::Connection* ConnectionQueue::silent(uint64_t id) const {
  for (const Waiting& w : waiting_)
    if (w.connection.id == id) return w.ready ? nullptr : &w.connection;
  return nullptr;
}

ConnectionQueue::Position ConnectionQueue::find(uint64_t id) {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [id](const Waiting& w) { return w.connection.id == id && !w.ready; });
}

void ConnectionQueue::make_ready(uint64_t id) {
  if (const Position at = find(id); at != waiting_.end()) at->ready = true;
}

void ConnectionQueue::remove(uint64_t id) {
  if (const Position at = find(id); at != waiting_.end()) take(at);
}

std::vector<ConnectionQueue::Connection> ConnectionQueue::take_expired(Nanoseconds now_ns) {
  std::vector<Connection> expired;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->ready || at->until_ns > now_ns) {
      ++at;
      continue;
    }
    const auto position = at - waiting_.begin();
    expired.push_back(take(at));
    at = waiting_.begin() + position;
  }
  return expired;
}

Nanoseconds ConnectionQueue::next_expiry_ns() const {
  Nanoseconds next_ns = INT64_MAX;
  for (const Waiting& w : waiting_)
    if (!w.ready) next_ns = std::min(next_ns, w.until_ns);
  return next_ns;
}

std::optional<ConnectionQueue::Turn> ConnectionQueue::next() {
  if (served_ >= limits_.threads) return std::nullopt;
  const bool reserve_stays = served_ + limits_.threads_in_reserve < limits_.threads;
  // Who holds less than its share comes first, then who had no turn for longest, then who came first.
  const auto order = [this](const Share& s) { return std::tuple(s.served >= limits_.threads_of_address, s.turn); };
  Position best = waiting_.end();
  const Share* of_best = nullptr;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const Share& share = shares_.find(at->connection.address)->second;
    if (!at->ready || (share.served >= limits_.threads_of_address && !reserve_stays)) continue;
    if (of_best == nullptr || order(share) < order(*of_best)) best = at, of_best = &share;
  }
  if (of_best == nullptr) return std::nullopt;
  Share& share = shares_.find(best->connection.address)->second;
  const bool hurry = share.served >= limits_.threads_of_address || !reserve_stays;
  ++served_;
  ++share.served;
  share.turn = ++turns_;
  return Turn{take(best), hurry};
}

void ConnectionQueue::done(const std::string& address) {
  --served_;
  --shares_.find(address)->second.served;
  forget_if_idle(address);
}

std::vector<ConnectionQueue::Connection> ConnectionQueue::take_all() {
  std::vector<Connection> all;
  while (!waiting_.empty()) all.push_back(take(std::prev(waiting_.end())));
  return all;
}

ConnectionQueue::Connection ConnectionQueue::take(Position at) {
  Connection connection = std::move(at->connection);
  waiting_.erase(at);
  --shares_.find(connection.address)->second.waiting;
  forget_if_idle(connection.address);
  return connection;
}

void ConnectionQueue::forget_if_idle(const std::string& address) {
  const auto share = shares_.find(address);
  if (share->second.waiting == 0 && share->second.served == 0) shares_.erase(share);
}

std::string sharer_of(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr, text, sizeof(text));
    return text;
  }
  if (peer.ss_family != AF_INET6) return "?";
  in6_addr address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&address)) return "::1";
  constexpr size_t network_bytes = 8, mapped_bytes = 12;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    inet_ntop(AF_INET, address.s6_addr + mapped_bytes, text, sizeof(text));
    return text;
  }
  std::memset(address.s6_addr + network_bytes, 0, sizeof(address.s6_addr) - network_bytes);
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return std::string(text) + "/64";
}

}  // namespace ccld::decision::server
