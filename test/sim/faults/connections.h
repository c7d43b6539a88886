// Which connections over the network a job has, and which of them only its pipeline uses. Pure.
#pragma once

#include <utility>
#include <vector>

#include "test/sim/cluster/layout.h"
#include "test/sim/cluster/topology.h"
#include "test/sim/cluster/traffic.h"

namespace ccld::sim {

// Processes: sender, receiver.
using Edge = std::pair<int, int>;

// Of operations of this way in the graph of one channel, as ranks.
std::vector<Edge> rank_edges(const Topology&, const ChannelGraph&, Way, int ranks);
// Of all communicators of this kind, each once. Rings and trees both: a job may use either.
std::vector<Edge> network_edges(const Layout&, CommKind, int channels);
// Send and Recv between neighbouring stages on different hosts.
std::vector<Edge> network_transfers(const Layout&);

// Connections that a fault of the pipeline's network may slow.
class PipelineNetwork {
 public:
  PipelineNetwork(const Layout&, int channels);

  // Transfers whose two processes no collective connects over the network.
  const std::vector<Edge>& links() const { return links_; }
  // Transfers between two hosts between which no tensor, data or expert group has a connection in that direction.
  const std::vector<Edge>& between_hosts() const { return between_hosts_; }
  // Everything from the first process's host to that of the second: transfers, and what the communicator of the whole
  // job has there, which carries a few bytes.
  std::vector<Edge> beside(Edge) const;
  // Processes whose proxies send transfers and serve nothing else.
  const std::vector<int>& senders() const { return senders_; }

  const std::vector<Edge>& transfers() const { return transfers_; }

 private:
  const Layout& layout_;
  std::vector<Edge> transfers_, world_, links_, between_hosts_;
  std::vector<int> senders_;
};

}  // namespace ccld::sim
