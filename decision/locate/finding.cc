#include "decision/locate/finding.h"

#include <algorithm>
#include <utility>

namespace ccld::decision {

Culprit make_culprit(const Communicator& comm, Rank rank, Component component, Condition condition,
                     std::string reason) {
  Culprit c;
  c.condition = condition;
  c.rank = rank;
  c.component = component;
  c.reason = std::move(reason);
  if (const RankModel* r = comm.rank(rank)) {
    c.host = r->host;
    c.cuda_device = r->gpu();
    c.gpu_bus_id = r->gpu_bus_id;
    if (r->process) c.pid = r->process->id.pid;
  }
  return c;
}

void collect_victims(const Communicator& comm, Finding& f) {
  for (int r = 0; r < comm.rank_count(); ++r)
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == r; }))
      f.victims.push_back(Rank{r});
}

std::string net_name_of(const Communicator& comm, Rank rank, abi::Direction direction, Rank peer, int channel) {
  const RankModel* r = comm.rank(rank);
  if (!r) return "";
  for (const NetConnection& c : r->connections)
    if (c.direction == direction && c.peer == peer.value && (channel < 0 || c.channel == channel)) return c.net_name;
  return "";
}

}  // namespace ccld::decision
