#include "decision/whatif/passages.h"

#include <cmath>

namespace ccld::decision::whatif {
namespace {

// By how much the realtime of `b`'s host is ahead of that of `a`'s, as kernels of both tell.
int64_t ahead_ns(const Node& a, const Node& b, const Timeline& t) {
  const auto realtime_ns = [&](const Node& n) {  // of its begin
    const Gpu& gpu = t.gpus()[static_cast<size_t>(n.gpu)];
    return static_cast<int64_t>(n.kernel->begin_ns) + gpu.report_most_ns + gpu.realtime_ahead_ns;
  };
  return realtime_ns(b) - realtime_ns(a) - std::llround(b.begin_ns - a.begin_ns);
}

void put_back(LinkStages& l, int64_t ns) {
  for (int64_t* mean_ns :
       {&l.gpu_mean_realtime_ns, &l.ready_mean_realtime_ns, &l.wire_mean_realtime_ns, &l.done_mean_realtime_ns})
    if (*mean_ns != 0) *mean_ns -= ns;
}

}  // namespace

std::vector<Passage> passages_of_transfers(const Graph& g, const Timeline& t, const std::vector<GpuFacts>& facts) {
  std::vector<Passage> passages(g.transfers.size());
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& transfer = g.transfers[i];
    const Node &send = g.nodes[static_cast<size_t>(transfer.send)], &recv = g.nodes[static_cast<size_t>(transfer.recv)];
    if (send.kernel->replay != 0) continue;
    const Rank sender = send.kernel->rank;
    const LinkRows* const reported = t.links(send.kernel->comm, sender, recv.kernel->rank, transfer.pair_seq);
    if (!reported) continue;
    const auto known = [&](const Node& n) { return t.gpus()[static_cast<size_t>(n.gpu)].report_most_ns != INT64_MAX; };
    const int sends_at = facts[static_cast<size_t>(send.gpu)].machine,
              receives_at = facts[static_cast<size_t>(recv.gpu)].machine;
    LinkRows rows = *reported;
    bool one_clock = sends_at != none && sends_at == receives_at;
    if (!one_clock && known(send) && known(recv)) {
      const int64_t ns = ahead_ns(send, recv, t);
      for (auto& [rank, l] : rows)
        if (rank != sender) put_back(l, ns);
      one_clock = true;
    }
    const auto machine = [&](Rank rank) { return one_clock ? 0 : rank == sender ? 0 : 1; };
    for (const auto& [edge, intervals] : match_links(rows, transfer.ns, machine))
      if (intervals.net_device >= 0 && intervals.steps > 0)
        passages[i].add(intervals, INFINITY, recv.begin_ns - send.begin_ns);
  }
  return passages;
}

}  // namespace ccld::decision::whatif
