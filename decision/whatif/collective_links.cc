#include "decision/whatif/collective_links.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "decision/measure/middle.h"
#include "decision/measure/passage.h"
#include "decision/measure/slow_links.h"
#include "decision/measure/wire_circles.h"
#include "decision/whatif/connections.h"

namespace ccld::decision::whatif {
namespace {

// A connection over the network, in the operations in which both its ends reported it: on a busy machine a probe looks
// long enough at some only.
struct Connection {
  Passage passage;
  double transfer_ns = 0;
  uint64_t operations = 0;
  double in_network() const { return passage.network_ns() * passage.steps / transfer_ns; }  // steps, on average
  double in_front() const { return passage.ns[to_hand_on] / transfer_ns; }                  // of the sender's proxy
  double step_in_front_ns() const { return passage.ns[to_hand_on] / passage.steps; }
};
using Connections = std::map<Edge, Connection>;

// Steps of different operations are not alike: those that take most of the time are compared.
std::vector<CollectiveRound> longest_kind(const std::vector<CollectiveRound>& rounds) {
  std::map<size_t, double> sums_ns;
  for (const CollectiveRound& r : rounds)
    if (!r.links.empty()) sums_ns[r.kind] += r.transfer_ns;
  std::vector<CollectiveRound> out;
  if (sums_ns.empty()) return out;
  const size_t longest = std::max_element(sums_ns.begin(), sums_ns.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                         })->first;
  std::copy_if(rounds.begin(), rounds.end(), std::back_inserter(out),
               [&](const CollectiveRound& r) { return r.kind == longest; });
  return out;
}

// Those that enough operations report.
Connections add_up(const std::vector<CollectiveRound>& rounds, uint64_t operations_min, SlowCollectives& out) {
  Connections sums;
  for (const CollectiveRound& round : rounds) {
    out.groups.push_back(round.group);
    if (round.transfer_ns <= 0) continue;
    WireCircles circles(round.links);
    double last_ns = -INFINITY;
    for (const RankBegin& b : round.begins)
      if (!std::isnan(b.at_ns)) last_ns = std::max(last_ns, b.at_ns);
    for (const auto& [edge, i] : round.links) {
      if (i.net_device < 0 || i.steps <= 0) continue;
      const double begun_ns = round.begins[static_cast<size_t>(edge.sender)].at_ns;
      const auto later_ns = [&](double ns) { return std::isfinite(ns - begun_ns) ? ns - begun_ns : 0; };
      const auto receiver = static_cast<size_t>(edge.receiver);
      if (sums.empty()) out.op = round.op, out.signature = round.signature;
      Connection& c = sums[edge];
      c.passage.add(i, circles.around_ns(i),
                    {later_ns(round.begins[receiver].at_ns), later_ns(round.posted_ns[receiver]), later_ns(last_ns)});
      c.transfer_ns += round.transfer_ns;
      ++c.operations;
    }
  }
  std::erase_if(sums, [&](const auto& entry) { return entry.second.operations < operations_min; });
  return sums;
}

// Proxies that did not look at their work for more of the time than others, and for this part at least.
bool find_away(const Connections& sums, const Settings& settings, SlowCollectives& out) {
  std::map<int32_t, double> away_parts;  // of the transfers
  for (const auto& [edge, c] : sums) {
    away_parts[edge.sender] = std::max(away_parts[edge.sender], c.passage.sender_away_ns / c.transfer_ns);
    away_parts[edge.receiver] = std::max(away_parts[edge.receiver], c.passage.receiver_away_ns / c.transfer_ns);
  }
  std::vector<double> all;
  for (const auto& [rank, part] : away_parts) all.push_back(part);
  const double usual_part = all.empty() ? 0 : middle(all);
  for (const auto& [rank, part] : away_parts) {
    if (part - usual_part < settings.whatif_away_min) continue;
    out.lost_part = std::max(out.lost_part, part - usual_part);
    out.links.push_back({Rank{rank}, Rank{rank}, Rank{rank}, Component::proxy, 0, part});
  }
  return !out.links.empty();
}

bool find_standing(const Connections& sums, const Settings& settings, SlowCollectives& out) {
  std::vector<double> all_ns;
  for (const auto& [edge, c] : sums) all_ns.push_back(c.passage.network_ns());
  std::sort(all_ns.begin(), all_ns.end());
  all_ns.resize((all_ns.size() + 1) / 2);  // one direction of a wire is half of its connections
  const double usual_ns = middle(all_ns);
  std::set<std::pair<int32_t, int32_t>> ends;
  for (const auto& [edge, c] : sums) ends.insert({edge.sender, edge.receiver});
  const double times = times_min((ends.size() + 1) / 2, settings);
  // A short operation never fills the slots, and of a tree a connection is used for half of the time.
  const auto steps_min = [&](const Connection& c) {
    return std::min(settings.whatif_standing_steps_min,
                    settings.whatif_short_steps_part * c.passage.steps / static_cast<double>(c.operations));
  };
  std::map<std::pair<int32_t, int32_t>, SlowLink> by_ends;  // all channels together
  for (const auto& [edge, c] : sums) {
    const Passage& p = c.passage;
    const double in_network = c.in_network(), standing = in_network + c.in_front();
    if (standing < steps_min(c)) continue;
    // What the receiver's GPU does not take fills everything behind it.
    if (p.ns[to_be_taken] >= (in_network + c.in_front()) * c.transfer_ns) continue;
    const double slow_ns =
        usual_ns * (standing < settings.whatif_standing_steps_min ? settings.whatif_short_times_min : times);
    // Behind a slow proxy the network runs empty; in front of a slow network both are full.
    const bool network = p.network_ns() >= slow_ns && in_network >= settings.whatif_behind_part_max * standing,
               proxy = !network && c.step_in_front_ns() >= slow_ns;
    if (!network && !proxy) continue;
    SlowLink& link = by_ends[{edge.sender, edge.receiver}];
    link.sender = link.at = Rank{edge.sender}, link.receiver = Rank{edge.receiver};
    link.steps += standing;
    const auto longest = std::max_element(p.ns + to_be_sent, p.ns + to_be_taken) - p.ns;
    link.component = proxy                    ? Component::proxy
                     : longest == to_be_sent  ? Component::nic
                     : longest == on_the_wire ? Component::link
                                              : Component::proxy;
    if (network && longest == to_be_given) link.at = link.receiver;
    // While a step stands in it all the time, all wait for it: what it takes longer is lost.
    const double slower_ns = network ? p.network_ns() : c.step_in_front_ns();
    out.lost_part = std::max(out.lost_part, std::min(1.0, standing) * (1 - usual_ns / slower_ns));
  }
  // Fewer stand on what is only kept by the slowest.
  double standing_most = 0;
  for (const auto& [ends, link] : by_ends) standing_most = std::max(standing_most, link.steps);
  // What a slow proxy receives late, or is given late, only seems to be slow.
  const auto serves = [&](Rank rank) {
    return std::any_of(by_ends.begin(), by_ends.end(), [&](const auto& entry) {
      return entry.second.component == Component::proxy && entry.second.at == rank;
    });
  };
  for (const auto& [ends, link] : by_ends)
    if (2 * link.steps >= standing_most &&
        (link.component == Component::proxy || (!serves(link.sender) && !serves(link.receiver))))
      out.links.push_back(link);
  return !out.links.empty() && out.links.size() < ends.size();
}

}  // namespace

std::optional<SlowCollectives> slow_collectives(const Communicator& comm, const std::vector<CollectiveRound>& rounds,
                                                const Settings& settings) {
  SlowCollectives out;
  out.comm = &comm;
  const Connections sums = add_up(longest_kind(rounds), settings.slow_rounds_min, out);
  if (sums.size() < 2) return std::nullopt;
  if (!find_away(sums, settings, out) && !find_standing(sums, settings, out)) return std::nullopt;
  out.lost_part = std::clamp(out.lost_part, 0.0, 1.0);
  return out;
}

}  // namespace ccld::decision::whatif
