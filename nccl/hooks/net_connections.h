// Connections through network devices, by the resources to which they belong. A communicator that was split with
// `splitShare` (or shrunk with `shrinkShare`) has its parent's resources: it uses the connections that the others of
// the same resources have made, and they use its own. So each is told of those to its ranks, whoever makes them and
// whenever.
//
// Ranks of a connection are those of the oldest communicator of the resources. Resources are known from the first
// connection or communicator until the last of their communicators leaves.
//
// Threads: any. What a communicator is told is said under a lock: after leaves() nothing comes any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "schemas/abi/frame.h"

namespace ccld::hooks {

struct NetConnection {
  abi::Direction direction;
  int channel;
  int peer;
  int net_device;
  std::string net_name;  // empty: not known
};

class NetConnections {
 public:
  // What one communicator wants to hear.
  struct Listener {
    // abi::Hidden, of its connections
    std::function<void(uint32_t hidden)> hides;
    // A connection that collectives may use; `peer` is the rank in this communicator.
    std::function<void(const NetConnection&, int peer)> connected;
  };

  // `comm` makes a connection, which hides something (abi::Hidden) or nothing. It need not have joined.
  void makes(const void* resources, const void* comm, const NetConnection&, bool for_collectives, uint32_t hidden);
  // `oldest_ranks`: of each rank of `comm`, the rank in the oldest communicator. Tells at once what is there.
  void joins(const void* resources, const void* comm, const std::vector<int>& oldest_ranks, Listener);
  // Also of communicators that never joined.
  void leaves(const void* resources, const void* comm);

  size_t resources_known() const;

 private:
  struct User {
    std::vector<std::pair<int, int>> ranks;  // in the oldest communicator, in this one; sorted. Empty: not joined
    Listener listener;

    int rank_of(int oldest_rank) const;  // -1: not in this communicator
    void hear(int peer, uint32_t hidden) const;
    void hear(const NetConnection&) const;
  };
  struct Resources {
    // Point-to-point operations may connect all ranks on all channels: of those only what is hidden is kept.
    std::map<int, uint32_t> hidden;  // by peer
    std::vector<NetConnection> for_collectives;
    std::map<const void*, User> users;
  };

  mutable std::mutex mutex_;
  std::map<const void*, Resources> resources_;
};

// Of this process. Never destroyed: communicators may be made at the very end.
NetConnections& net_connections();

}  // namespace ccld::hooks
