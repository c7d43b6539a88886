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

using Connections = std::map<Edge, StepTimes>;  // over the network

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
      Passage passage;
      passage.add(
          i, circles.around_ns(i),
          {later_ns(round.begins[receiver].at_ns), later_ns(round.posted_ns[receiver]), later_ns(last_ns), true});
      sums[edge].add(passage, round.transfer_ns);
      out.one_clock &= i.one_clock;
    }
  }
  std::erase_if(sums, [&](const auto& entry) { return entry.second.operations() < operations_min; });
  return sums;
}

// Part of the transfers in which a rank's proxy did not look at its work, beyond what is usual of the others.
std::map<int32_t, double> away_parts(const Connections& sums) {
  std::map<int32_t, double> parts;
  for (const auto& [edge, c] : sums) {
    parts[edge.sender] = std::max(parts[edge.sender], c.sender_away_part());
    parts[edge.receiver] = std::max(parts[edge.receiver], c.receiver_away_part());
  }
  std::vector<double> all;
  for (const auto& [rank, part] : parts) all.push_back(part);
  const double usual_part = all.empty() ? 0 : middle(all);
  for (auto& [rank, part] : parts) part -= usual_part;
  return parts;
}

bool find_away(const std::map<int32_t, double>& away, const Settings& settings, SlowCollectives& out) {
  for (const auto& [rank, part] : away) {
    if (part < settings.whatif_away_min) continue;
    out.lost_part = std::max(out.lost_part, part);
    out.links.push_back({Rank{rank}, Rank{rank}, Rank{rank}, Component::proxy, 0, part});
  }
  return !out.links.empty();
}

// The connections of two ranks, in all channels: time of a step in each part of the way, on average.
struct Pair {
  double now_ns = 0, error_ns = 0;       // on all parts of the network
  double longest_ns = 0, taken_ns = 0;   // on the longest of them; for the receiver's GPU
  double beyond_ns[passage_parts] = {};  // of each part, beyond the usual
  double standing = 0, steps_per_operation = 0;
  int channels = 0;

  void add(const StepTimes& c, const double (&usual_ns)[passage_parts]) {
    ++channels;
    const auto mix = [&](double& mean, double value) { mean += (value - mean) / channels; };
    double longest = 0;
    for (size_t part = 0; part < to_be_taken; ++part) {
      mix(beyond_ns[part], std::max(0.0, c.mean_ns(part) - usual_ns[part]));
      longest = std::max(longest, c.mean_ns(part));
    }
    mix(longest_ns, longest);
    mix(now_ns, c.given_after_ns());
    mix(error_ns, c.given_after_error_ns());  // channels of an operation are late together
    mix(taken_ns, c.mean_ns(to_be_taken));
    mix(standing, c.standing(c.given_after_ns()));
    mix(steps_per_operation, c.steps_per_operation());
  }
};

// What waits for a late rank is no cause beside what waits longer elsewhere.
void leave_out_waits_for(const std::vector<Rank>& late, std::vector<SlowLink>& links) {
  const auto waits = [&](const SlowLink& l) { return std::find(late.begin(), late.end(), l.receiver) != late.end(); };
  double most = 0;
  for (const SlowLink& l : links)
    if (!waits(l)) most = std::max(most, l.steps);
  std::erase_if(links, [&](const SlowLink& l) { return waits(l) && l.steps < most; });
}

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

bool find_standing(const Communicator& comm, const Connections& sums, const std::map<int32_t, double>& away,
                   const std::vector<Rank>& late, Nanoseconds since_ns, const Settings& settings,
                   SlowCollectives& out) {
  // One direction of a wire is half of its connections: a healthy one is found among the faster.
  double usual_ns[passage_parts] = {}, all_usual_ns = 0;
  for (size_t part = 0; part < to_be_taken; ++part) {
    std::vector<double> all_ns;
    for (const auto& [edge, c] : sums) all_ns.push_back(c.mean_ns(part));
    std::sort(all_ns.begin(), all_ns.end());
    all_ns.resize((all_ns.size() + 1) / 2);
    all_usual_ns += usual_ns[part] = middle(all_ns);
  }
  std::map<std::pair<int32_t, int32_t>, Pair> pairs;
  for (const auto& [edge, c] : sums) pairs[{edge.sender, edge.receiver}].add(c, usual_ns);
  const double times = times_min((pairs.size() + 1) / 2, settings);
  // By how much longer a rank's proxy takes to hand on what its GPU sends.
  const auto sends_ns = [&](int32_t rank) {
    double ns = 0;
    for (const auto& [ends, p] : pairs)
      if (ends.first == rank) ns = std::max(ns, p.beyond_ns[to_hand_on]);
    return ns;
  };
  std::vector<SlowLink> links;
  for (const auto& [ends, p] : pairs) {
    // A short operation never fills the slots, and of a tree a connection is used for half of the time.
    const double steps_min =
        std::min(settings.whatif_standing_steps_min, settings.whatif_short_steps_part * p.steps_per_operation);
    if (p.standing < steps_min || p.now_ns < times * all_usual_ns ||
        p.now_ns - all_usual_ns < settings.whatif_errors_min * p.error_ns)
      continue;
    // What the receiver's GPU does not take fills everything behind it.
    if (p.taken_ns >= p.longest_ns) continue;
    SlowLink link;
    link.sender = link.at = Rank{ends.first}, link.receiver = Rank{ends.second};
    link.steps = p.standing;
    const WhosePart whose = whose_part(p.beyond_ns, sends_ns(ends.second), settings.whatif_proxy_part_min);
    link.component = whose == WhosePart::device ? Component::nic
                     : whose == WhosePart::wire ? Component::link
                                                : Component::proxy;
    if (whose == WhosePart::receivers_proxy) link.at = link.receiver;
    // How far it got in the network nobody knows while a proxy does not look, or its threads are stopped.
    const bool sender_stopped = had_stopped_threads(comm, link.sender, since_ns),
               receiver_stopped = had_stopped_threads(comm, link.receiver, since_ns);
    const double sender_away = away.at(ends.first), receiver_away = away.at(ends.second);
    if (link.component != Component::proxy &&
        (sender_stopped != receiver_stopped ||
         std::max(sender_away, receiver_away) >= settings.whatif_proxy_part_min)) {
      link.component = Component::proxy;
      const bool sends = sender_stopped != receiver_stopped ? sender_stopped : sender_away >= receiver_away;
      link.at = sends ? link.sender : link.receiver;
    }
    // While a step stands in it all the time, all wait for it: what it takes longer is lost.
    out.lost_part = std::max(out.lost_part, std::min(1.0, p.standing) * (1 - all_usual_ns / p.now_ns));
    links.push_back(link);
  }
  leave_out_waits_for(late, links);
  // Fewer stand on what is only kept by the slowest.
  double most = 0;
  for (const SlowLink& link : links) most = std::max(most, link.steps);
  std::erase_if(links, [&](const SlowLink& l) { return 2 * l.steps < most; });
  const bool all = links.size() == pairs.size();
  out.links = put_together(links);
  return !out.links.empty() && (!all || out.links.size() < pairs.size());
}

}  // namespace

std::optional<SlowCollectives> slow_collectives(const Communicator& comm, const std::vector<CollectiveRound>& rounds,
                                                const std::vector<Rank>& late, Nanoseconds since_ns,
                                                const Settings& settings) {
  SlowCollectives out;
  out.comm = &comm;
  const Connections sums = add_up(longest_kind(rounds), settings.slow_rounds_min, out);
  if (sums.size() < 2) return std::nullopt;
  const std::map<int32_t, double> away = away_parts(sums);
  if (!find_away(away, settings, out) && !find_standing(comm, sums, away, late, since_ns, settings, out))
    return std::nullopt;
  out.lost_part = std::clamp(out.lost_part, 0.0, 1.0);
  return out;
}

}  // namespace ccld::decision::whatif
