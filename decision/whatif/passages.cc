#include "decision/whatif/passages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace ccld::decision::whatif {
namespace {

// Realtime of machines minus the common time of the graph, at most.
class Realtimes {
 public:
  Realtimes(const Graph& g, const Timeline& t, const std::vector<GpuFacts>& facts) : facts_(facts) {
    for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
      const Gpu& of = t.gpus()[gpu];
      if (g.gpus[gpu].first == g.gpus[gpu].second || of.report_most_ns == INT64_MAX) continue;
      const Node& n = g.nodes[static_cast<size_t>(g.gpus[gpu].first)];
      const int64_t ns = static_cast<int64_t>(n.kernel->begin_ns) + of.report_most_ns + of.realtime_ahead_ns -
                         std::llround(n.begin_ns);
      const auto [at, first] = ahead_ns_.emplace(machine(static_cast<int>(gpu)), ns);
      if (!first) at->second = std::min(at->second, ns);
    }
  }
  bool same(int a, int b) const { return machine(a) == machine(b); }
  bool known(int gpu) const { return ahead_ns_.contains(machine(gpu)); }
  // By how much realtime of `b`'s machine is ahead of that of `a`'s.
  int64_t between_ns(int a, int b) const { return ahead_ns_.at(machine(b)) - ahead_ns_.at(machine(a)); }

 private:
  // A GPU of which it is not known counts as a machine of its own.
  std::pair<bool, int> machine(int gpu) const {
    const int number = facts_[static_cast<size_t>(gpu)].machine;
    return number == none ? std::pair(false, gpu) : std::pair(true, number);
  }

  const std::vector<GpuFacts>& facts_;
  std::map<std::pair<bool, int>, int64_t> ahead_ns_;
};

void put_back(LinkStages& l, int64_t ns) {
  for (int64_t* mean_ns :
       {&l.gpu_mean_realtime_ns, &l.ready_mean_realtime_ns, &l.wire_mean_realtime_ns, &l.done_mean_realtime_ns})
    if (*mean_ns != 0) *mean_ns -= ns;
}

}  // namespace

std::vector<Passage> passages_of_transfers(const Graph& g, const Timeline& t, const std::vector<GpuFacts>& facts) {
  std::vector<Passage> passages(g.transfers.size());
  const Realtimes realtimes(g, t, facts);
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& transfer = g.transfers[i];
    const Node &send = g.nodes[static_cast<size_t>(transfer.send)], &recv = g.nodes[static_cast<size_t>(transfer.recv)];
    if (send.kernel->replay != 0) continue;
    const Rank sender = send.kernel->rank;
    const LinkRows* const reported = t.links(send.kernel->comm, sender, recv.kernel->rank, transfer.pair_seq);
    if (!reported) continue;
    LinkRows rows = *reported;
    bool one_clock = realtimes.same(send.gpu, recv.gpu);
    if (!one_clock && realtimes.known(send.gpu) && realtimes.known(recv.gpu)) {
      const int64_t ns = realtimes.between_ns(send.gpu, recv.gpu);
      for (auto& [rank, l] : rows)
        if (rank != sender) put_back(l, ns);
      one_clock = true;
    }
    const double later_ns = recv.begin_ns - send.begin_ns;
    const auto clock = [&](Rank rank) { return one_clock || rank == sender ? 0 : 1; };
    for (const auto& [edge, intervals] : match_links(rows, transfer.ns, clock))
      if (intervals.net_device >= 0 && intervals.steps > 0)
        passages[i].add(intervals, INFINITY, {later_ns, later_ns, later_ns});
  }
  return passages;
}

}  // namespace ccld::decision::whatif
