// What proxy threads do for the GPU on the way to the network, and which network device a connection uses.
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "comm.h"
#include "nccl/hooks/ccld_hooks.h"
#include "nccl/hooks/hooked_comm.h"
#include "nccl/hooks/net_connections.h"
#include "nccl/hooks/watched_comms.h"
#include "net.h"
#include "probe/monotonic.h"
#include "probe/probe.h"
#include "proxy.h"
#include "transport.h"

using namespace ccld;

namespace ccld::hooks {

WatchedComms& watched_comms() {
  static WatchedComms* const comms = new WatchedComms;
  return *comms;
}

uint32_t process_tag() {
  // Random, not the process id: containers that share memory need not share process ids.
  static const uint32_t tag = [] {
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(random))) {
      random = static_cast<uint32_t>(getpid()) * 2654435761u;
    }
    return random | 1;  // 0 would make the name of a missing communicator
  }();
  return tag;
}

namespace {

// Aggregated network operations of CollNet and the profiler's pseudo operations count something else.
bool counts_steps(const ncclProxyArgs* args, const ncclProxyConnection* connection) {
  return args->pattern != ncclPatternProfiler && connection != nullptr &&
         (connection->transport == TRANSPORT_NET || connection->transport == TRANSPORT_SHM ||
          connection->transport == TRANSPORT_P2P);
}

// Never a system call, and a few nanoseconds: the progress thread comes by every few microseconds.
uint64_t coarse_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Where the clock is read by a system call, steps are not timed. In the other case that takes some 30 ns, once a step and
// stage.
bool clock_is_cheap() {
  constexpr unsigned reads = 64;
  constexpr uint64_t most_ns = 200;  // of each; the fastest system call takes as long
  uint64_t least_ns = UINT64_MAX;    // a preemption in between changes nothing
  for (int attempt = 0; attempt < 3; ++attempt) {
    const uint64_t begin_ns = probe::monotonic_ns();
    for (unsigned i = 1; i < reads; ++i) probe::monotonic_ns();
    least_ns = std::min(least_ns, probe::monotonic_ns() - begin_ns);
  }
  return least_ns <= reads * most_ns;
}

using ExactClock = uint64_t (*)();
ExactClock exact_clock() {
  static const ExactClock clock = clock_is_cheap() ? &probe::monotonic_ns : nullptr;
  return clock;
}

probe::ProxySteps steps_of(const ncclProxyArgs* args, const ncclProxySubArgs& sub, uint64_t now_ns) {
  const ncclProxyConnection& connection = *sub.connection;
  probe::ProxySteps steps{};
  steps.connection = reinterpret_cast<uint64_t>(sub.connection);
  steps.peer = sub.peer;
  steps.channel = sub.channelId;
  steps.net_device = connection.ccld_net_device - 1;  // 0 where it was never set
  steps.direction = connection.send ? abi::Direction::send : abi::Direction::recv;
  steps.operation = args->opCount;
  steps.base = sub.base;
  steps.posted = sub.base + sub.posted;
  steps.received = sub.base + (connection.send ? 0 : sub.received);
  steps.transmitted = sub.base + sub.transmitted;
  steps.done = sub.base + sub.done;
  steps.step_count = static_cast<uint64_t>(sub.nsteps);
  steps.now_ns = now_ns;
  steps.exact_ns = exact_clock();
  return steps;
}

}  // namespace
}  // namespace ccld::hooks

uint64_t ccld_proxy_owner(struct ncclComm* comm) {
  if (comm->ccld == nullptr || comm->ccld->watch == 0) return 0;
  return hooks::proxy_owner_name(hooks::process_tag(), comm->ccld->watch);
}

void ccld_proxy_visited(struct ncclProxyState* proxy_state, struct ncclProxyArgs* args) {
  // Before its first progress an operation still shows the numbers of the one that had its place.
  if (args->state == ncclProxyOpReady) return;
  const uint64_t now_ns = hooks::coarse_now_ns();
  for (int s = 0; s < args->nsubs; ++s) {
    const ncclProxySubArgs& sub = args->subs[s];
    if (sub.ccld_owner >> 32 != hooks::process_tag() || !hooks::counts_steps(args, sub.connection)) continue;
    hooks::watched_comms().visit(static_cast<uint32_t>(sub.ccld_owner), [&](ccld_comm& hooked) {
      // Operations sent through another rank's network device are served by that rank's progress thread. If that rank
      // lives in this process, two threads would write one record.
      if (hooked.proxy_state == proxy_state) probe::proxy_visited(hooked.probe, hooks::steps_of(args, sub, now_ns));
    });
  }
}

void ccld_net_connected(struct ncclComm* comm, int sends, int channel, int peer, int net_device, int connection_index,
                        int proxy_rank) {
  // Without NCCL's runtime connections (NCCL_RUNTIME_CONNECT=0) the communicator has no frame yet.
  if (!probe::enabled()) return;
  // Connections with index 1 serve point-to-point operations, of every peer with every other.
  const bool for_collectives = connection_index == 0;
  hooks::NetConnection connection{sends ? abi::Direction::send : abi::Direction::recv, channel,
                                  comm->topParentRanks[peer], net_device, {}};
  ncclNetProperties_t properties{};
  if (for_collectives && comm->ncclNet->getProperties(net_device, &properties) == ncclSuccess &&
      properties.name != nullptr)
    connection.net_name = properties.name;
  const bool plugin = comm->ncclNet != &ncclNetIb && comm->ncclNet != &ncclNetSocket;
  const uint32_t hidden = (proxy_rank != comm->rank ? abi::hidden_pxn : 0u) | (plugin ? abi::hidden_network : 0u);
  hooks::net_connections().makes(comm->sharedRes, comm, connection, for_collectives, hidden);
}
