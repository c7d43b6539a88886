#include "decision/whatif/collective_links.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "decision/measure/passage.h"
#include "decision/measure/slow_links.h"
#include "decision/measure/wire_circles.h"
#include "decision/whatif/middle.h"

namespace ccld::decision::whatif {
namespace {

struct Sums {
  std::map<Edge, Passage> connections;  // over the network
  double transfer_ns = 0;               // of the operations that have them
  uint64_t operations = 0;
};

Sums add_up(const Communicator& comm, const Graph& g, const Timeline& t, SlowCollectives& out) {
  Sums sums;
  for (size_t group = 0; group < g.groups.size(); ++group) {
    const Kernel& first = *g.nodes[static_cast<size_t>(g.groups[group].front())].kernel;
    if (first.comm != comm.uid()) continue;
    out.groups.push_back(static_cast<int>(group));
    const auto* const rows = first.replay == 0 ? t.links(first.comm, first.op) : nullptr;
    if (!rows) continue;
    RoundEntry e;
    e.links = *rows;
    e.cells.resize(static_cast<size_t>(comm.rank_count()));
    std::vector<double> begins_ns(e.cells.size(), NAN);
    double started_ns = -INFINITY, ended_ns = -INFINITY;
    for (int member : g.groups[group]) {
      const Node& n = g.nodes[static_cast<size_t>(member)];
      const auto r = static_cast<size_t>(n.kernel->rank.value);
      if (r >= e.cells.size()) continue;
      e.cells[r].begin_device_ns = n.kernel->begin_ns, e.cells[r].end_device_ns = n.kernel->end_ns;
      e.cells[r].timed = true;
      begins_ns[r] = n.begin_ns;
      started_ns = std::max(started_ns, n.begin_ns), ended_ns = std::max(ended_ns, n.end_ns);
    }
    if (ended_ns <= started_ns) continue;
    bool any = false;
    const Links links = match_links(comm, e);
    WireCircles circles(links);
    for (const auto& [edge, i] : links) {
      if (i.net_device < 0 || i.steps <= 0) continue;
      // It may have reported them before it was known that the communicator has fewer ranks.
      if (std::max(edge.sender, edge.receiver) >= comm.rank_count()) continue;
      const double later_ns =
          begins_ns[static_cast<size_t>(edge.receiver)] - begins_ns[static_cast<size_t>(edge.sender)];
      sums.connections[edge].add(i, circles.around_ns(i), std::isnan(later_ns) ? 0 : later_ns);
      any = true;
    }
    if (!any) continue;
    if (sums.operations++ == 0) out.op = first.op, out.signature = first.signature;
    sums.transfer_ns += ended_ns - started_ns;
  }
  return sums;
}

// Proxies that did not look at their work for more of the time than others, and for this part at least.
bool find_away(const Sums& sums, const Settings& settings, SlowCollectives& out) {
  std::map<int32_t, double> away_ns;
  for (const auto& [edge, p] : sums.connections) {
    away_ns[edge.sender] = std::max(away_ns[edge.sender], p.sender_away_ns);
    away_ns[edge.receiver] = std::max(away_ns[edge.receiver], p.receiver_away_ns);
  }
  std::vector<double> all;
  for (const auto& [rank, ns] : away_ns) all.push_back(ns);
  const double usual_ns = all.empty() ? 0 : middle(all);
  double most_ns = 0;
  for (const auto& [rank, ns] : away_ns) {
    const double beyond_ns = ns - usual_ns;
    if (beyond_ns < settings.whatif_away_min * sums.transfer_ns) continue;
    most_ns = std::max(most_ns, beyond_ns);
    out.links.push_back({Rank{rank}, Rank{rank}, Rank{rank}, Component::proxy, 0, ns / sums.transfer_ns});
  }
  out.lost_part = most_ns / sums.transfer_ns;
  return !out.links.empty();
}

bool find_standing(const Sums& sums, const Settings& settings, SlowCollectives& out) {
  std::vector<double> all_ns;
  for (const auto& [edge, p] : sums.connections) all_ns.push_back(p.network_ns());
  std::sort(all_ns.begin(), all_ns.end());
  all_ns.resize((all_ns.size() + 1) / 2);  // one direction of a wire is half of its connections
  const double usual_ns = middle(all_ns);
  const double slow_ns = settings.whatif_transfer_times_min * usual_ns;
  double steps_most = 0;
  std::map<std::pair<int32_t, int32_t>, SlowLink> by_ends;  // all channels together
  for (const auto& [edge, p] : sums.connections) {
    const double in_network = p.network_ns() * p.steps / sums.transfer_ns,
                 standing = in_network + p.ns[to_hand_on] / sums.transfer_ns;
    if (standing < settings.whatif_standing_steps_min) continue;
    // Behind a slow proxy the network runs empty; in front of a slow network both are full.
    const bool network = p.network_ns() >= slow_ns && in_network >= settings.whatif_behind_part_max * standing,
               proxy = !network && p.ns[to_hand_on] / p.steps >= slow_ns;
    if (!network && !proxy) continue;
    SlowLink& link = by_ends[{edge.sender, edge.receiver}];
    link.sender = link.at = Rank{edge.sender}, link.receiver = Rank{edge.receiver};
    link.steps += standing;
    const auto longest = std::max_element(p.ns + to_be_sent, p.ns + passage_parts) - p.ns;
    link.component = proxy                    ? Component::proxy
                     : longest == to_be_sent  ? Component::nic
                     : longest == on_the_wire ? Component::link
                                              : Component::proxy;
    if (network && longest == to_be_given) link.at = link.receiver;
    steps_most = std::max(steps_most, p.steps);
  }
  // Fewer stand on what is only kept by the slowest.
  double standing_most = 0;
  for (const auto& [ends, link] : by_ends) standing_most = std::max(standing_most, link.steps);
  for (const auto& [ends, link] : by_ends)
    if (2 * link.steps >= standing_most) out.links.push_back(link);
  out.lost_part = 1 - steps_most * usual_ns / sums.transfer_ns;
  return !out.links.empty() && out.links.size() < sums.connections.size();
}

}  // namespace

std::optional<SlowCollectives> slow_collectives(const Communicator& comm, const Graph& g, const Timeline& t,
                                                const Settings& settings) {
  SlowCollectives out;
  out.comm = &comm;
  const Sums sums = add_up(comm, g, t, out);
  if (sums.operations < settings.slow_rounds_min || sums.connections.size() < 2) return std::nullopt;
  if (!find_away(sums, settings, out) && !find_standing(sums, settings, out)) return std::nullopt;
  out.lost_part = std::clamp(out.lost_part, 0.0, 1.0);
  return out;
}

}  // namespace ccld::decision::whatif
