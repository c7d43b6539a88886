#include "decision/locate/slow_network.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ccld::decision {
namespace {

// A proxy explains the loss on its connections if it did not look at them for this part of it. (Whether what waits was
// sent, or has arrived, nobody knows meanwhile: the network and the other ends only seem slow.)
constexpr double away_part_min = 0.5;

Culprit culprit_of(const Communicator& comm, const SlowStage& s, int channel) {
  const Rank sender{s.edge.sender}, receiver{s.edge.receiver};
  const std::string steps = absl::StrFormat("%.1f more steps on average", s.waiting_steps);
  Culprit c;
  switch (s.stage) {
    case Stage::sender_proxy:
      c = make_culprit(comm, sender, Component::proxy,
                       absl::StrCat(steps, " wait in its proxy towards rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::sender_nic:
      c = make_culprit(comm, sender, Component::nic,
                       absl::StrCat(steps, " wait in its network device towards rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::wire:
      c = make_culprit(comm, sender, Component::link, absl::StrCat(steps, " on the wire to rank ", receiver.value));
      c.peer = receiver;
      break;
    case Stage::receiver_proxy:
      c = make_culprit(comm, receiver, Component::proxy,
                       absl::StrCat(steps, " wait in its proxy from rank ", sender.value));
      c.peer = sender;
      break;
    case Stage::receiver_gpu:
    case Stage::gpu_to_gpu:
      c = make_culprit(comm, receiver, Component::gpu,
                       absl::StrCat(steps, " from rank ", sender.value, " wait for its GPU"));
      break;
  }
  c.channel = channel;
  if (c.component == Component::nic || c.component == Component::link)
    c.net_name = net_name_of(comm, sender, abi::Direction::send, receiver, channel);
  return c;
}

std::vector<SlowEdge> find_slow_edges(const Communicator& comm, const SlowWindow& w, bool network_only, Finding& f) {
  const std::vector<SlowStage> grown = grown_stages(w, network_only);
  size_t rows = 0;
  for (const SlowStage& s : grown) {
    if (rows++ == 6) break;
    add_evidence(f, s.edge.sender,
                 absl::StrCat("to rank ", s.edge.receiver, ", channel ", s.edge.channel, ": more steps than usual ",
                              name(s.stage)),
                 s.waiting_steps, "steps");
  }
  std::vector<SlowEdge> edges;
  for (const SlowStage& found : slow_stages(comm, grown)) {
    const auto same = [&](const SlowStage& s) {
      return s.edge.sender == found.edge.sender && s.edge.receiver == found.edge.receiver && s.stage == found.stage;
    };
    if (std::any_of(edges.begin(), edges.end(), [&](const SlowEdge& e) { return same(e.stage); })) continue;
    SlowEdge edge{found, found.edge.channel, 0};
    for (const SlowStage& s : grown) {
      if (!same(s)) continue;
      edge.queued += s.waiting_steps;
      if (s.edge.channel != found.edge.channel) edge.channel = -1;
    }
    edges.push_back(edge);
    if (edges.size() > 2) continue;
    const EdgeLoss& loss = w.edges.at(found.edge);
    for (size_t stage = 0; stage < stage_count; ++stage)
      if (loss.waited_ns[stage] > 0)
        add_evidence(f, found.edge.sender,
                     absl::StrCat("channel ", found.edge.channel, " to rank ", found.edge.receiver, ": steps ",
                                  name(static_cast<Stage>(stage)), " beyond the usual"),
                     w.standing(loss, static_cast<Stage>(stage)), "steps");
  }
  return edges;
}

// Whose proxy sees the stage end: it hands over and says "sent", or sees what arrives.
int32_t proxy_of(const SlowStage& s) {
  return s.stage == Stage::sender_proxy || s.stage == Stage::sender_nic ? s.edge.sender : s.edge.receiver;
}

std::vector<AwayProxy> find_away_proxies(const SlowWindow& w, Finding& f) {
  std::map<int32_t, AwayProxy> proxies;
  for (const auto& [edge, loss] : w.edges) {
    const double slow_ns = w.slow_ns(loss);
    if (slow_ns <= 0) continue;
    for (const auto& [rank, ns] :
         {std::pair(edge.sender, loss.sender_away_ns), {edge.receiver, loss.receiver_away_ns}}) {
      AwayProxy& p = proxies.try_emplace(rank, AwayProxy{rank, 0, 0}).first->second;
      if (ns > p.away_part * slow_ns)
        p = {rank, ns / slow_ns, ns / static_cast<double>(std::max<uint64_t>(loss.rounds, 1))};
    }
  }
  std::vector<AwayProxy> found;
  for (const auto& [rank, p] : proxies)
    if (p.away_part >= away_part_min) found.push_back(p);
  std::sort(found.begin(), found.end(), [](const AwayProxy& a, const AwayProxy& b) {
    return a.away_part != b.away_part ? a.away_part > b.away_part : a.rank < b.rank;
  });
  if (found.size() > culprits_max) found.resize(culprits_max);
  for (const AwayProxy& p : found)
    add_evidence(f, p.rank, "its proxy had work and did not look, of a slow round", p.away_ns / 1e6, "ms");
  return found;
}

// A proxy that is slow or seldom runs delays several connections; a link delays one direction of one.
std::optional<int32_t> common_proxy(const Communicator& comm, const SlowWindow& w, const std::vector<SlowEdge>& edges) {
  if (edges.empty() ||
      std::any_of(edges.begin(), edges.end(), [](const SlowEdge& e) { return in_receiving_gpu(e.stage.stage); }))
    return std::nullopt;
  const int32_t first = proxy_of(edges[0].stage);
  bool one = true, sends = false, receives = false, in_proxy = true;
  for (const SlowEdge& e : edges) {
    one &= proxy_of(e.stage) == first;
    sends |= e.stage.edge.sender == first;
    receives |= e.stage.edge.receiver == first;
    in_proxy &= e.stage.stage == Stage::sender_proxy || e.stage.stage == Stage::receiver_proxy;
  }
  if (one && ((sends && receives) || (in_proxy && edges.size() > 1))) return first;
  // Or the process itself says that threads of it do not run.
  std::optional<int32_t> stopped;
  for (int32_t end : {edges[0].stage.edge.sender, edges[0].stage.edge.receiver}) {
    if (!had_stopped_threads(comm, Rank{end}, w.started_ns)) continue;
    if (stopped) return std::nullopt;
    stopped = end;
  }
  const bool at_all = stopped && std::all_of(edges.begin(), edges.end(), [&](const SlowEdge& e) {
                        return e.stage.edge.sender == *stopped || e.stage.edge.receiver == *stopped;
                      });
  return at_all ? stopped : std::nullopt;
}

void name_away_proxies(const Communicator& comm, double share, const SlowNetwork& n, Finding& f) {
  double away_part = 0;
  for (const AwayProxy& p : n.away) away_part += p.away_part;
  for (const AwayProxy& p : n.away) {
    Culprit c = make_culprit(comm, Rank{p.rank}, Component::proxy,
                             absl::StrFormat("its proxy did not look at its connections for %.0f %% of the lost time",
                                             std::min(100.0, 100 * p.away_part)));
    c.lost_time_share = share * p.away_part / away_part;
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
  }
}

std::string handed_on(double queued) {
  return absl::StrFormat("%.1f more steps on average wait for it to hand them on", queued);
}

void name_edges(const Communicator& comm, double share, const SlowNetwork& n, Finding& f) {
  double queued = 0;
  for (const SlowEdge& e : n.edges) queued += e.queued;
  if (n.proxy) {
    Culprit c = make_culprit(comm, Rank{*n.proxy}, Component::proxy, handed_on(queued));
    if (n.edges.size() == 1) {
      const Edge& edge = n.edges[0].stage.edge;
      c.peer = Rank{edge.sender == *n.proxy ? edge.receiver : edge.sender};
      c.channel = n.edges[0].channel;
    }
    c.lost_time_share = share;
    f.culprits.push_back(std::move(c));
    return;
  }
  std::map<int32_t, double> queued_in;  // proxies
  for (const SlowEdge& e : n.edges) {
    Culprit c = culprit_of(comm, e.stage, e.channel);
    c.lost_time_share = share * e.queued / queued;
    const bool in_proxy = c.component == Component::proxy;
    const auto known = std::find_if(f.culprits.begin(), f.culprits.end(), [&](const Culprit& k) {
      return in_proxy && k.component == Component::proxy && k.rank == c.rank;
    });
    if (in_proxy) queued_in[c.rank.value] += e.queued;
    if (known != f.culprits.end()) {
      known->peer.reset();
      known->channel = -1;
      known->lost_time_share += c.lost_time_share;
      known->reason = handed_on(queued_in[c.rank.value]);
    } else if (f.culprits.size() < culprits_max) {
      f.culprits.push_back(std::move(c));
    }
  }
}

// What waits for a late rank waits in front of its GPU, then on the wire, then in the sender: how long is not known to
// a step. So beside what waits longer elsewhere it is no cause of its own.
void leave_out_waits_for(const std::vector<Rank>& late, std::vector<SlowEdge>& edges) {
  const auto waits_for_late = [&](const SlowEdge& e) {
    return std::any_of(late.begin(), late.end(), [&](Rank r) { return r.value == e.stage.edge.receiver; });
  };
  double most_steps = 0;
  for (const SlowEdge& e : edges)
    if (!waits_for_late(e)) most_steps = std::max(most_steps, e.stage.waiting_steps);
  std::erase_if(edges, [&](const SlowEdge& e) { return waits_for_late(e) && e.stage.waiting_steps < most_steps; });
}

}  // namespace

bool had_stopped_threads(const Communicator& comm, Rank rank, Nanoseconds since_ns) {
  const RankModel* r = comm.rank(rank);
  return r && r->process && r->process->threads_stopped_ns > 0 && r->process->threads_stopped_ns >= since_ns;
}

SlowNetwork find_slow_network(const Communicator& comm, const SlowWindow& w, const std::vector<Rank>& late,
                              bool network_only, double queued_steps_min, double waiting_steps_min, Finding& f) {
  SlowNetwork n;
  n.away = find_away_proxies(w, f);
  if (!n.away.empty()) return n;
  n.edges = find_slow_edges(comm, w, network_only, f);
  std::erase_if(n.edges, [&](const SlowEdge& e) {
    return e.queued < queued_steps_min || e.stage.waiting_steps < waiting_steps_min;
  });
  leave_out_waits_for(late, n.edges);
  n.proxy = common_proxy(comm, w, n.edges);
  return n;
}

void name_slow_network(const Communicator& comm, const SlowNetwork& n, double share, Finding& f) {
  name_away_proxies(comm, share, n, f);
  name_edges(comm, share, n, f);
}

}  // namespace ccld::decision
