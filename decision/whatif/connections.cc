#include "decision/whatif/connections.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "decision/whatif/middle.h"

namespace ccld::decision::whatif {
namespace {

struct Connection {
  int sender = none, receiver = none;  // GPUs
  std::vector<int> transfers;
  double sum_ns = 0;
  double mean_ns() const { return sum_ns / static_cast<double>(transfers.size()); }
};

Cause cause_of(Cause::Kind kind, int gpu, const std::vector<const Connection*>& of, double reference_ns, size_t peers) {
  Cause c;
  c.kind = kind;
  c.gpu = gpu;
  double sum_ns = 0;
  for (const Connection* connection : of) {
    c.transfers.insert(c.transfers.end(), connection->transfers.begin(), connection->transfers.end());
    sum_ns += connection->sum_ns;
  }
  c.measured_ns = sum_ns / static_cast<double>(c.transfers.size());
  c.reference_ns = reference_ns;
  c.peers = static_cast<int>(peers);
  return c;
}

}  // namespace

std::vector<Cause> slow_connections(const Graph& g, const std::vector<GpuFacts>& facts, const Settings& settings,
                                    std::vector<double>& less_ns) {
  less_ns.assign(g.transfers.size(), 0);
  std::vector<Cause> causes;
  const auto host = [&](int gpu) { return facts[static_cast<size_t>(gpu)].host; };
  const auto process = [&](int gpu) { return facts[static_cast<size_t>(gpu)].process; };
  const auto age_ms = [&](int gpu) { return facts[static_cast<size_t>(gpu)].proxy_age_ms; };
  // Comparable: the same bytes, over the network or not.
  std::map<std::pair<uint64_t, bool>, std::map<std::pair<int, int>, Connection>> kinds;
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& t = g.transfers[i];
    const int sender = g.nodes[static_cast<size_t>(t.send)].gpu, receiver = g.nodes[static_cast<size_t>(t.recv)].gpu;
    Connection& c = kinds[{t.bytes, host(sender) != host(receiver)}][{sender, receiver}];
    c.sender = sender, c.receiver = receiver;
    c.transfers.push_back(static_cast<int>(i));
    c.sum_ns += t.ns;
  }
  for (auto& [kind, connections] : kinds) {
    // Half of the connections may be slow (one direction of a wire), so a healthy one is found among the faster.
    std::vector<double> means;
    for (const auto& [ends, c] : connections) means.push_back(c.mean_ns());
    std::sort(means.begin(), means.end());
    const size_t peers = (means.size() + 1) / 2;
    if (peers < settings.whatif_peers_min) continue;
    const double reference_ns = middle({means.begin(), means.begin() + static_cast<std::ptrdiff_t>(peers)});
    std::vector<const Connection*> slow;
    // What takes little longer beside the slowest is noise.
    const double beyond_ns =
        std::max((settings.whatif_transfer_times_min - 1) * reference_ns, (means.back() - reference_ns) / 2);
    for (const auto& [ends, c] : connections)
      if (c.mean_ns() - reference_ns > beyond_ns) slow.push_back(&c);
    if (slow.empty() || slow.size() > means.size() - peers) continue;
    for (const Connection* c : slow)
      for (int i : c->transfers)
        less_ns[static_cast<size_t>(i)] = std::max(0.0, g.transfers[static_cast<size_t>(i)].ns - reference_ns);

    // All connections of a wire, or of a process, and more than one of them.
    const auto all_slow = [&](auto matches) {
      std::vector<const Connection*> of;
      for (const auto& [ends, c] : connections) {
        if (!matches(c)) continue;
        if (std::find(slow.begin(), slow.end(), &c) == slow.end()) return std::vector<const Connection*>();
        of.push_back(&c);
      }
      return of;
    };
    while (!slow.empty()) {
      const Connection& c = *slow.front();
      std::vector<const Connection*> best{&c};
      Cause::Kind best_kind = Cause::Kind::connection;
      int gpu = c.sender;
      if (kind.second) {
        const auto wire = all_slow([&](const Connection& o) {
          return host(o.sender) == host(c.sender) && host(o.receiver) == host(c.receiver);
        });
        if (wire.size() > best.size()) best = wire, best_kind = Cause::Kind::wire;
        for (int end : {c.sender, c.receiver}) {
          const auto proxy = all_slow([&](const Connection& o) {
            return process(o.sender) == process(end) || process(o.receiver) == process(end);
          });
          // Of two that serve the same connections, the one that was seen to look at its work more rarely.
          const bool rarer =
              proxy.size() == best.size() && best_kind == Cause::Kind::proxy && age_ms(end) > age_ms(gpu);
          if (proxy.size() > best.size() || rarer) best = proxy, best_kind = Cause::Kind::proxy, gpu = end;
        }
      }
      causes.push_back(cause_of(best_kind, gpu, best, reference_ns, peers));
      for (const Connection* taken : best) std::erase(slow, taken);
    }
  }
  return causes;
}

}  // namespace ccld::decision::whatif
