#include "decision/whatif/slow_network.h"

#include <algorithm>
#include <map>

namespace ccld::decision::whatif {
namespace {

// A proxy is one, however many of its connections show it. What it receives late, or is given late, only seems to be
// slow.
std::vector<SlowLink> put_together(const std::vector<SlowLink>& links) {
  const auto proxy_of = [&](const SlowLink& link) {
    return std::find_if(links.begin(), links.end(), [&](const SlowLink& l) {
      return l.component == Component::proxy &&
             (link.component == Component::proxy ? l.at == link.at : l.at == link.sender || l.at == link.receiver);
    });
  };
  std::vector<SlowLink> out;
  for (const SlowLink& link : links) {
    const auto proxy = proxy_of(link);
    if (proxy == links.end()) {
      out.push_back(link);
      continue;
    }
    const auto known = std::find_if(out.begin(), out.end(), [&](const SlowLink& l) {
      return l.component == Component::proxy && l.at == proxy->at;
    });
    if (known == out.end())
      out.push_back(*proxy);
    else if (link.component == Component::proxy)
      known->sender = known->receiver = known->at, known->steps += link.steps;
  }
  return out;
}

// `receiver_sends_ns`: by how much longer the receiver's proxy takes to hand on what its own GPU sends.
void name_part(const ConnectionSteps& c, const UsualStep& usual, double receiver_sends_ns, const Settings& settings,
               SlowLink& link) {
  double beyond_ns[passage_parts] = {};
  for (size_t part = 0; part < to_be_taken; ++part) {
    beyond_ns[part] = std::max(0.0, c.times.mean_ns(part) - usual.ns[part]);
    link.waiting[part] = c.times.waiting(beyond_ns[part]);
  }
  switch (whose_part(beyond_ns, receiver_sends_ns, settings.whatif_proxy_part_min)) {
    case WhosePart::device: link.component = Component::nic; break;
    case WhosePart::wire: link.component = Component::link; break;
    case WhosePart::receivers_proxy: link.at = link.receiver; [[fallthrough]];
    case WhosePart::senders_proxy: link.component = Component::proxy;
  }
}

// Their proxies did not poll their connections: nobody knows meanwhile what else is slow.
std::vector<SlowLink> away_proxies(const StepReference& reference, const Settings& settings) {
  std::vector<SlowLink> links;
  for (const auto& [rank, part] : reference.away_parts()) {
    if (part < settings.whatif_away_min) continue;
    SlowLink& link = links.emplace_back();
    link.sender = link.receiver = link.at = Rank{rank};
    link.component = Component::proxy;
    link.away_part = part;
    link.lost_part = part;
    link.lost_most_part = 1;  // each step may wait for its return
  }
  return links;
}

}  // namespace

SlowNetwork find_slow_network(const Connections& connections, const StepReference& reference,
                              const Settings& settings) {
  SlowNetwork out;
  out.links = away_proxies(reference, settings);
  out.slow = !out.links.empty();
  if (out.slow) return out;
  std::map<Ends, StepReference::Exceeded> exceeding, slow;
  size_t all = 0;
  for (const auto& [ends, c] : connections) {
    if (!c.network) continue;
    ++all;
    const auto exceeded = reference.exceeded(ends, c);
    if (!exceeded) continue;
    exceeding[ends] = *exceeded;
    double longest_ns = 0;
    for (size_t part = 0; part < to_be_taken; ++part) longest_ns = std::max(longest_ns, c.times.mean_ns(part));
    // What the receiver's GPU does not take fills everything behind it.
    if (c.times.mean_ns(to_be_taken) >= longest_ns) continue;
    slow[ends] = *exceeded;
  }
  std::vector<SlowLink> links;
  for (const auto& [ends, exceeded] : slow) {
    const ConnectionSteps& c = connections.at(ends);
    SlowLink link;
    link.sender = link.at = Rank{ends.first}, link.receiver = Rank{ends.second};
    link.steps = c.times.waiting(c.times.given_after_ns());
    link.by_past = exceeded.by_past;
    const double longer_ns = beyond_ns(c.times, exceeded.usual);
    link.longer_ns = longer_ns;
    link.lost_part = c.lost_part(longer_ns), link.lost_most_part = c.lost_most_part(longer_ns);
    if (const auto before = reference.before(ends)) link.lost_since_part = c.lost_part(beyond_ns(c.times, *before));
    for (PassagePart part : {to_be_sent, on_the_wire})
      link.under_way_ns += std::max(0.0, c.times.mean_ns(part) - reference.of_peers(true).ns[part]);
    double receiver_sends_ns = 0;
    for (const auto& [from, other] : exceeding)
      if (from.first == ends.second)
        receiver_sends_ns =
            std::max(receiver_sends_ns, connections.at(from).times.mean_ns(to_hand_on) - other.usual.ns[to_hand_on]);
    name_part(c, exceeded.usual, receiver_sends_ns, settings, link);
    links.push_back(link);
  }
  // Fewer wait on what is only kept by the slowest.
  double most = 0;
  for (const SlowLink& link : links) most = std::max(most, link.steps);
  std::erase_if(links, [&](const SlowLink& l) { return 2 * l.steps < most; });
  const bool all_slow = links.size() == all && all > 2;
  out.links = put_together(links);
  // Nobody stands out, unless there is only one wire with its two directions.
  if (all_slow && out.links.size() == all) out.links.clear();
  out.slow = !slow.empty();
  return out;
}

}  // namespace ccld::decision::whatif
