#include "nccl/hooks/net_connections.h"

#include <algorithm>

namespace ccld::hooks {

int NetConnections::User::rank_of(int oldest_rank) const {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), std::pair<int, int>{oldest_rank, -1});
  return found != ranks.end() && found->first == oldest_rank ? found->second : -1;
}

void NetConnections::User::hear(int peer, uint32_t hidden) const {
  if (hidden != 0 && rank_of(peer) >= 0) listener.hides(hidden);
}

void NetConnections::User::hear(const NetConnection& connection) const {
  const int peer = rank_of(connection.peer);
  if (peer >= 0) listener.connected(connection, peer);
}

void NetConnections::makes(const void* resources, const void* comm, const NetConnection& connection,
                           bool for_collectives, uint32_t hidden) {
  std::lock_guard<std::mutex> lock(mutex_);
  Resources& known = resources_[resources];
  known.users[comm];
  known.hidden[connection.peer] |= hidden;
  if (for_collectives) known.for_collectives.push_back(connection);
  for (const auto& [user_comm, user] : known.users) {
    user.hear(connection.peer, hidden);
    if (for_collectives) user.hear(connection);
  }
}

void NetConnections::joins(const void* resources, const void* comm, const std::vector<int>& oldest_ranks,
                           Listener listener) {
  std::lock_guard<std::mutex> lock(mutex_);
  Resources& known = resources_[resources];
  User& user = known.users[comm];
  user.listener = std::move(listener);
  user.ranks.clear();
  for (size_t rank = 0; rank < oldest_ranks.size(); ++rank)
    user.ranks.emplace_back(oldest_ranks[rank], static_cast<int>(rank));
  std::sort(user.ranks.begin(), user.ranks.end());
  for (const auto& [peer, hidden] : known.hidden) user.hear(peer, hidden);
  for (const NetConnection& connection : known.for_collectives) user.hear(connection);
}

void NetConnections::leaves(const void* resources, const void* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = resources_.find(resources);
  if (known == resources_.end()) return;
  known->second.users.erase(comm);
  if (known->second.users.empty()) resources_.erase(known);
}

size_t NetConnections::resources_known() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return resources_.size();
}

NetConnections& net_connections() {
  static NetConnections* const connections = new NetConnections;
  return *connections;
}

}  // namespace ccld::hooks
