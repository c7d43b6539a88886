#include "decision/whatif/passages.h"

#include <utility>

namespace ccld::decision::whatif {

std::vector<Passage> passages_of_transfers(const Graph& g, const Timeline& t, const std::vector<GpuFacts>& facts,
                                           MachineClocks& clocks) {
  std::vector<Links> links(g.transfers.size());
  std::vector<Links*> reported;
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& transfer = g.transfers[i];
    const Node &send = at(g.nodes, transfer.send), &recv = at(g.nodes, transfer.recv);
    if (send.kernel->replay != 0 || !transfer.measured) continue;
    const Rank sender = send.kernel->rank;
    const LinkRows* const rows = t.links(send.kernel->comm, sender, recv.kernel->rank, transfer.pair_seq);
    if (!rows) continue;
    const auto machine = [&](Rank rank) { return at(facts, rank == sender ? send.gpu : recv.gpu).machine; };
    links[i] = match_links(*rows, transfer.ns, machine);
    reported.push_back(&links[i]);
  }
  clocks.compare(reported);
  std::vector<Passage> passages(g.transfers.size());
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& transfer = g.transfers[i];
    const double later_ns = at(g.nodes, transfer.recv).begin_ns - at(g.nodes, transfer.send).begin_ns;
    for (const auto& [edge, intervals] : links[i])
      if (intervals.net_device >= 0 && intervals.steps > 0) passages[i].add(intervals, {later_ns, later_ns, later_ns});
  }
  return passages;
}

}  // namespace ccld::decision::whatif
