#include "decision/whatif/causes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "decision/measure/middle.h"
#include "decision/whatif/candidates.h"
#include "decision/whatif/connections.h"
#include "decision/whatif/peers.h"

namespace ccld::decision::whatif {
namespace {

// So many are tried one by one.
constexpr size_t candidates_max = 16;

class Remedy {
 public:
  Remedy(const Graph& g, const Beyond& beyond, const std::vector<double>& transfer_less_ns,
         const std::vector<SlowCollectives>& collectives)
      : g_(g), beyond_(beyond), transfer_less_ns_(transfer_less_ns), collectives_(collectives) {}

  Change without(const std::vector<Candidate>& candidates, size_t but = SIZE_MAX) const {
    Change change(g_.nodes.size());
    for (size_t i = 0; i < candidates.size(); ++i)
      if (i != but) apply(candidates[i], change);
    return change;
  }
  double length_without(const std::vector<Candidate>& candidates, size_t but = SIZE_MAX) const {
    return length_with(g_, without(candidates, but)).ns;
  }
  std::vector<Waiting> waiting(const std::vector<Candidate>& candidates) const {
    Change change(g_.nodes.size());
    std::vector<double> with_ns, without_ns;
    length_with(g_, change, &with_ns);
    for (const Candidate& c : candidates) apply(c, change);
    length_with(g_, change, &without_ns);
    struct OfComm {
      double sum_ns = 0, most_ns = 0;
      OpSeq op;
      std::set<int> gpus;
    };
    std::map<CommUid, OfComm> comms;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      OfComm& of = comms[g_.nodes[i].kernel->comm];
      const double less_ns = with_ns[i] - without_ns[i];
      of.sum_ns += less_ns;
      of.gpus.insert(g_.nodes[i].gpu);
      if (less_ns > of.most_ns) of.most_ns = less_ns, of.op = g_.nodes[i].kernel->op;
    }
    std::vector<Waiting> out;
    for (const auto& [comm, of] : comms) out.push_back({comm, of.op, of.sum_ns / static_cast<double>(of.gpus.size())});
    return out;
  }

 private:
  void apply(const Candidate& c, Change& change) const {
    for (const Candidate::Part& p : c.parts) apply(p.cause, change);
  }
  void apply(const Cause& c, Change& change) const {
    if (c.collectives != none) {
      for (const auto& [group, lost_part] : at(collectives_, c.collectives).operations)
        for (int member : at(g_.groups, group))
          at(change.transfer_less_ns, member) = std::max(
              at(change.transfer_less_ns, member), static_cast<float>(lost_part * at(g_.nodes, member).transfer_ns));
      return;
    }
    if (c.transfers.empty()) {
      const auto [from, to] = at(g_.gpus, c.gpu);
      for (int i = from; i < to; ++i) at(change.own_less_ns, i) = at(beyond_.own_ns, i);
      return;
    }
    for (int i : c.transfers) {
      const Transfer& t = at(g_.transfers, i);
      const auto less = static_cast<float>(at(transfer_less_ns_, i));
      for (int end : {t.send, t.recv})
        at(change.transfer_less_ns, end) = std::max(at(change.transfer_less_ns, end), less);
    }
  }

  const Graph& g_;
  const Beyond& beyond_;
  const std::vector<double>& transfer_less_ns_;
  const std::vector<SlowCollectives>& collectives_;
};

// Ranks that come late and a connection that has become slow may hide each other: whoever is gone, the job waits for
// the other. Each is named if it makes a good part of the loss.
bool is_second(const std::vector<Candidate>& candidates, size_t i, const std::vector<SlowCollectives>& collectives,
               const Settings& settings) {
  const auto changed = [&](const Candidate& c) {
    return std::any_of(c.parts.begin(), c.parts.end(), [&](const Candidate::Part& p) {
      return p.cause.collectives != none && at(collectives, p.cause.collectives).changed;
    });
  };
  const bool late = is_late(candidates[i].first());
  if (!late && !changed(candidates[i])) return false;
  double others_ns = 0;
  for (const Candidate& c : candidates)
    if (late ? changed(c) : is_late(c.first())) others_ns += c.most_ns;
  return others_ns > 0 &&
         candidates[i].most_ns >= settings.slow_component_share_min * (others_ns + candidates[i].most_ns);
}

// Parts of a candidate that are not missed leave, the least first: it costs enough without them.
void keep_needed_parts(const Remedy& remedy, std::vector<Candidate>& candidates, size_t i, double without_it_ns,
                       double gain_min_ns, double& length_without_ns) {
  Candidate& c = candidates[i];
  if (c.parts.size() > candidates_max) return;  // too many to be tried one by one: all stay
  std::stable_sort(c.parts.begin(), c.parts.end(),
                   [](const Candidate::Part& a, const Candidate::Part& b) { return a.most_ns > b.most_ns; });
  for (size_t p = c.parts.size(); p-- > 0 && c.parts.size() > 1;) {
    const auto place = c.parts.begin() + static_cast<std::ptrdiff_t>(p);
    Candidate::Part part = std::move(*place);
    c.parts.erase(place);
    const double without_part_ns = remedy.length_without(candidates);
    if (without_part_ns - length_without_ns >= gain_min_ns || without_it_ns - without_part_ns < gain_min_ns) {
      c.parts.insert(c.parts.begin() + static_cast<std::ptrdiff_t>(p), std::move(part));
      continue;
    }
    c.most_ns -= part.most_ns;
    c.gain_ns = without_it_ns - without_part_ns;
    length_without_ns = without_part_ns;
  }
}

// No more candidates than can be tried one by one. Late ranks that are beyond these are tried together with the last
// late one among them: where many are late, each holds up the job, and to leave out some of them gains nothing.
void keep_few(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.most_ns > b.most_ns; });
  Candidate* last = nullptr;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!is_late(candidates[i].first())) continue;
    if (i < candidates_max) {
      last = &candidates[i];
      continue;
    }
    if (last == nullptr) break;
    last->most_ns += candidates[i].most_ns;
    std::move(candidates[i].parts.begin(), candidates[i].parts.end(), std::back_inserter(last->parts));
  }
  if (candidates.size() > candidates_max) candidates.resize(candidates_max);
}

bool stands_out(const Beyond::OfGpu& of, double least_ns, const Settings& settings) {
  return of.nodes > 0 && of.sum_ns >= least_ns && of.sum_ns >= settings.whatif_deviations_min * of.deviation_ns;
}

// A GPU that computes slowly takes part in collectives slowly, too: without it, they would take as long as those of the
// same kind in which no late GPU is.
void take_part_as_peers(const Graph& g, const Lateness& lateness, const Settings& settings, Change& change) {
  const auto late = [&](const std::vector<int>& group) {
    return std::any_of(group.begin(), group.end(), [&](int i) { return at(lateness.late, at(g.nodes, i).gpu); });
  };
  const auto transfer_ns = [&](const std::vector<int>& group) {
    double longest_ns = 0;
    for (int i : group) longest_ns = std::max(longest_ns, at(g.nodes, i).transfer_ns);
    return longest_ns;
  };
  std::map<size_t, std::vector<double>> usual_ns;  // by kind
  for (const std::vector<int>& group : g.groups)
    if (!late(group)) usual_ns[at(lateness.kinds.of_node, group.front())].push_back(transfer_ns(group));
  for (const std::vector<int>& group : g.groups) {
    if (!late(group)) continue;
    const auto it = usual_ns.find(at(lateness.kinds.of_node, group.front()));
    if (it == usual_ns.end() || it->second.size() < settings.whatif_peers_min) continue;
    const double longer_part = 1 - middle(it->second) / transfer_ns(group);
    for (int i : group)
      at(change.transfer_less_ns, i) = static_cast<float>(std::max(0.0, longer_part) * at(g.nodes, i).transfer_ns);
  }
}

// Of each GPU what is further beyond: its peers or its past.
Beyond better_supported(Beyond peers, const Beyond& past, const Graph& g, double least_ns, const Settings& settings) {
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    if (!stands_out(past.gpus[gpu], least_ns, settings)) continue;
    if (stands_out(peers.gpus[gpu], least_ns, settings) && peers.gpus[gpu].sum_ns >= past.gpus[gpu].sum_ns) continue;
    peers.gpus[gpu] = past.gpus[gpu];
    for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i) {
      at(peers.own_ns, i) = at(past.own_ns, i);
      at(peers.host_ns, i) = at(past.host_ns, i);
    }
  }
  return peers;
}

}  // namespace

Lateness find_late(const Graph& g, const Timeline& t, const Past& past, const Settings& settings) {
  Lateness out;
  const double least_ns = settings.whatif_gain_min * g.length_ns;
  out.kinds = kinds_of(g, t, settings);
  out.beyond = better_supported(compare_with_peers(g, t, out.kinds, past.recurring(), settings, out.seldom),
                                past.compare(g, t, out.kinds, out.seldom), g, least_ns, settings);
  for (const Beyond::OfGpu& of : out.beyond.gpus) out.late.push_back(stands_out(of, least_ns, settings));
  return out;
}

Explanation explain(const Graph& g, const Timeline& t, const Past& past, const Lateness& lateness,
                    const std::vector<GpuFacts>& facts, const std::vector<Passage>& passages,
                    const std::vector<SlowCollectives>& collectives, const Settings& settings) {
  Explanation out;
  out.length_ns = out.length_without_ns = g.length_ns;
  const double least_ns = settings.whatif_gain_min * g.length_ns;
  const Beyond& beyond = lateness.beyond;
  std::vector<Candidate::Part> parts;
  for (size_t gpu = 0; gpu < beyond.gpus.size(); ++gpu) {
    const Beyond::OfGpu& of = beyond.gpus[gpu];
    if (!lateness.late[gpu]) continue;
    Candidate::Part c;
    c.cause.kind = of.by_host() ? Cause::Kind::host : Cause::Kind::gpu;
    c.cause.gpu = static_cast<int>(gpu);
    c.cause.measured_ns = of.own_ns / static_cast<double>(of.nodes);
    c.cause.reference_ns = (of.own_ns - of.sum_ns) / static_cast<double>(of.nodes);
    c.cause.peers = of.peers;
    c.most_ns = of.sum_ns;
    parts.push_back(std::move(c));
  }
  std::vector<double>& transfer_less_ns = out.transfer_less_ns;
  for (Cause& cause : slow_connections(g, t, past, facts, passages, settings, transfer_less_ns)) {
    Candidate::Part c;
    for (int i : cause.transfers) c.most_ns += at(transfer_less_ns, i);
    c.cause = std::move(cause);
    parts.push_back(std::move(c));
  }
  for (size_t i = 0; i < collectives.size(); ++i) {
    Candidate::Part c;
    c.cause.kind = Cause::Kind::collectives;
    c.cause.collectives = static_cast<int>(i);
    const auto& operations = collectives[i].operations;
    double sum_ns = 0;
    for (const auto& [group, lost_part] : operations) {
      double longest_ns = 0;
      for (int member : at(g.groups, group)) longest_ns = std::max(longest_ns, at(g.nodes, member).transfer_ns);
      sum_ns += longest_ns;
      c.most_ns += lost_part * longest_ns;
    }
    c.cause.measured_ns = sum_ns / static_cast<double>(operations.size());
    c.cause.reference_ns = (sum_ns - c.most_ns) / static_cast<double>(operations.size());
    parts.push_back(std::move(c));
  }
  std::vector<Candidate> candidates = by_place(std::move(parts), g, facts, collectives);
  keep_few(candidates);

  // The smallest set: whoever is not missed leaves, the least first.
  const Remedy remedy(g, beyond, transfer_less_ns, collectives);
  out.length_without_ns = remedy.length_without(candidates);
  const double gain_min_ns =
      std::max(least_ns, settings.slow_component_share_min * (out.length_ns - out.length_without_ns));
  for (size_t i = candidates.size(); i-- > 0;) {
    const double without_it = remedy.length_without(candidates, i);
    candidates[i].gain_ns = without_it - out.length_without_ns;
    if (candidates[i].gain_ns >= gain_min_ns) {
      keep_needed_parts(remedy, candidates, i, without_it, gain_min_ns, out.length_without_ns);
      continue;
    }
    // A rank is one only if the job gains without it alone: others may seem late behind a slow connection.
    if (is_second(candidates, i, collectives, settings) &&
        (!is_late(candidates[i].first()) || out.length_ns - remedy.length_without({candidates[i]}) >= gain_min_ns))
      continue;
    out.length_without_ns = without_it;
    candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!candidates.empty()) {
    Change change = remedy.without(candidates);
    if (std::all_of(candidates.begin(), candidates.end(),
                    [](const Candidate& c) { return c.first().kind == Cause::Kind::gpu; }))
      take_part_as_peers(g, lateness, settings, change);
    const Length without = length_with(g, change);
    out.length_without_ns = without.ns, out.fixed_ns = without.fixed_ns;
    out.waiting = remedy.waiting(candidates);
    std::erase_if(out.waiting, [&](const Waiting& w) { return w.less_ns < least_ns; });
  }
  for (Candidate& c : candidates)
    for (Candidate::Part& p : c.parts) {
      p.cause.gain_ns = c.most_ns > 0 ? c.gain_ns * p.most_ns / c.most_ns : 0;
      out.causes.push_back(std::move(p.cause));
    }
  std::stable_sort(out.causes.begin(), out.causes.end(),
                   [](const Cause& a, const Cause& b) { return a.gain_ns > b.gain_ns; });
  return out;
}

}  // namespace ccld::decision::whatif
