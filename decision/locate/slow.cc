#include "decision/locate/slow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/locate/slow_stages.h"

namespace ccld::decision {
namespace {

// A rank is the same cause over the window if it is among the last in this part of what was lost, the worst round left
// out; imbalance that moves between two ranks reaches a half.
constexpr double late_part_min = 0.6;
// And so much must be left of it after the uncertainty of a few rounds is taken off.
constexpr double late_part_sure = 0.4;
// A GPU that is slow lets the kernel wait after its launch, less so where the host waits for its GPU in between; kernels
// of a host that is late wait for less than usual.
constexpr double queued_part_min = 0.15;
// On a machine that is busy everything takes somewhat longer, and somewhat more waits everywhere: a moderate loss has
// no cause on which less than a step waits.
constexpr double queued_steps_min = 1;
// A proxy explains the loss on its connections if it did not look at them for this part of it. (Whether what waits was
// sent, or has arrived, nobody knows meanwhile: the network and the other ends only seem slow.)
constexpr double away_part_min = 0.5;
// A late rank is the cause of a moderate loss if it explains this part at least of what other communicators do not, or
// more if it is late in less than this part of the slow rounds.
constexpr double explained_part_min = 0.4;
constexpr double now_and_then_part_min = 0.6;

// Beside ranks that lose far more, the network is a cause of its own if without them, too, rounds would take twice as
// long, this part of the loss is its, and a queue stands: half of the slots of a connection are never free.
constexpr double own_loss_min = 1;
constexpr double own_part_min = 0.05;
constexpr double standing_steps_min = 4;

struct LateRanks {
  std::vector<Rank> ranks;
  double lost_ns = 0;  // of these ranks
};

LateRanks find_late_ranks(const SlowWindow& w) {
  LateRanks late;
  if (w.slow_rounds < 2) return late;
  const bool lone = w.largest_ns >= w.computation_ns;  // all was lost in one round
  for (size_t r = 0; r < w.ranks.size(); ++r) {
    const RankLoss& own = w.ranks[r];
    if (own.late < 2 || lone) continue;
    const auto rank = static_cast<int32_t>(r);
    const bool in_worst = std::find(w.largest_late.begin(), w.largest_late.end(), rank) != w.largest_late.end();
    const double part = (own.present_ns - (in_worst ? w.largest_ns : 0)) / (w.computation_ns - w.largest_ns);
    if (part < late_part_min || part - 1 / std::sqrt(static_cast<double>(w.slow_rounds)) < late_part_sure) continue;
    late.ranks.push_back(Rank{rank});
    late.lost_ns += own.late_ns;
  }
  return late;
}

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

// The channels that share a pair of ranks and a stage are one culprit.
struct SlowEdge {
  SlowStage stage;  // of the channel with the longest queue
  int channel;      // -1: several
  double queued;    // steps of all channels
};

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
                     loss.waited_ns[stage] / w.staged_ns, "steps");
  }
  return edges;
}

// Whose proxy sees the stage end: it hands over and says "sent", or sees what arrives.
int32_t proxy_of(const SlowStage& s) {
  return s.stage == Stage::sender_proxy || s.stage == Stage::sender_nic ? s.edge.sender : s.edge.receiver;
}

struct AwayProxy {
  int32_t rank;
  double away_ns;
};

std::vector<AwayProxy> find_away_proxies(const SlowWindow& w, Finding& f) {
  std::map<int32_t, double> away_ns;
  for (const auto& [edge, loss] : w.edges) {
    for (const auto& [rank, ns] : {std::pair(edge.sender, loss.sender_away_ns), {edge.receiver, loss.receiver_away_ns}})
      away_ns[rank] = std::max(away_ns[rank], ns);
  }
  std::vector<AwayProxy> found;
  for (const auto& [rank, ns] : away_ns)
    if (w.staged_ns > 0 && ns >= away_part_min * w.staged_ns) found.push_back({rank, ns});
  std::sort(found.begin(), found.end(), [](const AwayProxy& a, const AwayProxy& b) {
    return a.away_ns != b.away_ns ? a.away_ns > b.away_ns : a.rank < b.rank;
  });
  if (found.size() > culprits_max) found.resize(culprits_max);
  for (const AwayProxy& p : found)
    add_evidence(f, p.rank, "its proxy had work and did not look, of a slow round",
                 p.away_ns / static_cast<double>(std::max<uint64_t>(w.slow_rounds, 1)) / 1e6, "ms");
  return found;
}

// Health is sampled once a second: threads that are stopped for most of the time are caught at it now and then.
bool had_stopped_threads(const Communicator& comm, int32_t rank, Nanoseconds since_ns) {
  const RankModel* r = comm.rank(Rank{rank});
  return r && r->process && r->process->threads_stopped_ns > 0 && r->process->threads_stopped_ns >= since_ns;
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
    if (!had_stopped_threads(comm, end, w.started_ns)) continue;
    if (stopped) return std::nullopt;
    stopped = end;
  }
  const bool at_all = stopped && std::all_of(edges.begin(), edges.end(), [&](const SlowEdge& e) {
                        return e.stage.edge.sender == *stopped || e.stage.edge.receiver == *stopped;
                      });
  return at_all ? stopped : std::nullopt;
}

void describe_window(Finding& f, const SlowWindow& w) {
  const double rounds = static_cast<double>(std::max<uint64_t>(w.slow_rounds, 1));
  add_evidence(f, -1, "slow rounds", static_cast<double>(w.slow_rounds), "rounds");
  add_evidence(f, -1, "of rounds", static_cast<double>(w.rounds), "rounds");
  add_evidence(f, -1, "T_base", w.base_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "lost in a slow round", w.lost_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "of it between operations (computation)", w.computation_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "of it since the last start (communication)", w.communication_ns / rounds / 1e6, "ms");
  if (w.elsewhere_ns > 0) add_evidence(f, -1, "of it in other communicators", w.elsewhere_ns / rounds / 1e6, "ms");
  if (w.unknown_ns > 0) add_evidence(f, -1, "of it with reports lost", w.unknown_ns / rounds / 1e6, "ms");
  add_evidence(f, -1, "R of the worst round", w.worst.ratio(), "");
  add_evidence(f, -1, "P of the worst round", w.worst.p(), "");
}

std::string next_step_of(const Finding& f) {
  const auto names = [&](Component component) {
    return std::any_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.component == component; });
  };
  const bool network = names(Component::link) || names(Component::nic), proxy = names(Component::proxy);
  if (f.fault == FaultClass::s1_computation_slow)
    return "Compare GPU clocks, temperature and power, CPU load and data loading of the named rank with its peers'.";
  if (f.fault == FaultClass::s3_mixed_slow)
    return absl::StrCat("Two causes: look at the late rank (GPU clocks, data loading, host) and at the named ",
                        network ? "link." : proxy ? "proxy (what else runs on its processors)." : "GPU.");
  if (f.culprits.empty())
    return "No link stands out: compare link rates of all nodes, and check whether the whole fabric or machine is busy.";
  if (proxy && !network)
    return "Check what else runs on the processors of the named process: its proxy thread waits for one (quota, pinning, "
           "data loaders), or hangs in a call of its own.";
  return "Check the named device or link: negotiated rate, errors, congestion, other traffic.";
}

}  // namespace

std::optional<Finding> locate_slow(const Communicator& comm, const SlowWindow& w, const Settings& settings) {
  Finding f;
  f.op = w.first_slow_op;
  f.replay = w.first_slow_replay;
  f.signature = w.signature;
  describe_window(f, w);
  const double total = w.computation_ns + w.communication_ns + w.elsewhere_ns + w.unknown_ns;
  if (total <= 0) return std::nullopt;
  const LateRanks late = find_late_ranks(w);
  const bool computation = !late.ranks.empty() && w.computation_ns >= settings.slow_component_share_min * total;
  // What was lost while a late rank was not measured was lost by its lateness, as far as anyone knows.
  double communication_ns = w.communication_ns;
  if (computation)
    for (Rank r : late.ranks) communication_ns -= w.ranks[r.value].unseen_ns;
  const bool good_part = communication_ns >= settings.slow_component_share_min * total;
  const bool communication =
      good_part || (communication_ns >= own_loss_min * w.base_ns && communication_ns >= own_part_min * total);
  // Late because another communicator was slow: that one has the finding, unless what is lost here makes it slow too.
  const bool kept = !computation && w.elsewhere_ns > w.communication_ns;
  if (kept && w.communication_ns < settings.slow_lost_share_min * w.comm_time_ns) return std::nullopt;
  if (!computation && !communication) return std::nullopt;
  // Lateness that moves from rank to rank is no fault, however much it takes.
  if (!computation && w.computation_ns > w.communication_ns &&
      w.communication_ns < settings.slow_lost_share_min * w.comm_time_ns)
    return std::nullopt;

  std::vector<AwayProxy> away;
  std::vector<SlowEdge> edges;
  if (communication) away = find_away_proxies(w, f);
  if (communication && away.empty()) edges = find_slow_edges(comm, w, computation || kept, f);
  if (!good_part)
    std::erase_if(edges, [](const SlowEdge& e) { return e.stage.waiting_steps < standing_steps_min; });
  // Ranks that are kept make many edges wait: only one that stands out is a cause of its own.
  if (kept && away.empty() && edges.size() != 1 && !common_proxy(comm, w, edges)) return std::nullopt;
  // A moderate loss without a cause is the weather of the machine. (That keeps several proxies from running, too.)
  const bool clear = away.size() == 1 || std::any_of(edges.begin(), edges.end(), [](const SlowEdge& e) {
                       return e.queued >= queued_steps_min;
                     });
  // So is one with a late rank that explains little of it.
  const bool often = std::any_of(late.ranks.begin(), late.ranks.end(), [&](Rank r) {
    return w.ranks[r.value].late >= explained_part_min * static_cast<double>(w.slow_rounds);
  });
  const double explained_min = often ? explained_part_min : now_and_then_part_min;
  const bool explained = computation && w.computation_ns >= explained_min * (total - w.elsewhere_ns);
  if (!explained && !clear && w.lost_ns <= settings.slow_theta * w.base_ns) return std::nullopt;
  const bool named = !edges.empty() || !away.empty();

  if (computation) {
    for (Rank r : late.ranks) {
      const RankLoss& own = w.ranks[r.value];
      const double lost_ns = own.late_ns, rounds = static_cast<double>(std::max(own.late, 1u));
      // What lies after the last other kernel on its GPU tells these two, if it is enough to be called a cause.
      const double told_ns = own.idle_ns >= settings.slow_component_share_min * lost_ns ? own.idle_ns : lost_ns;
      const bool queued = own.queued_ns >= queued_part_min * told_ns;
      Culprit c = make_culprit(
          comm, r, queued ? Component::gpu : Component::process,
          absl::StrFormat("%.1f ms later than its peers in %.0f of %u slow rounds: %s", lost_ns / rounds / 1e6, rounds,
                          w.slow_rounds, queued ? "its GPU was busy before the kernel began" : "it launches late"));
      c.lost_time_share = late.lost_ns > 0 ? w.computation_ns / total * lost_ns / late.lost_ns : 0;
      c.queued_part = std::clamp(own.queued_ns / lost_ns, 0.0, 1.0);
      if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
      add_evidence(f, r.value, "gap between operations beyond its peers'", lost_ns / rounds / 1e6, "ms");
      add_evidence(f, r.value, "of it from launch to begin of the kernel", std::max(0.0, own.queued_ns / rounds / 1e6), "ms");
    }
  }
  double away_ns = 0;
  for (const AwayProxy& p : away) away_ns += p.away_ns;
  for (const AwayProxy& p : away) {
    Culprit c = make_culprit(comm, Rank{p.rank}, Component::proxy,
                             absl::StrFormat("its proxy did not look at its connections for %.0f %% of the lost time",
                                             std::min(100.0, 100 * p.away_ns / w.staged_ns)));
    c.lost_time_share = w.communication_ns / total * p.away_ns / away_ns;
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
  }
  double queued = 0;
  for (const SlowEdge& e : edges) queued += e.queued;
  const std::optional<int32_t> proxy = common_proxy(comm, w, edges);
  if (proxy) {
    Culprit c = make_culprit(comm, Rank{*proxy}, Component::proxy,
                             absl::StrFormat("%.1f more steps on average wait for it to hand them on", queued));
    if (edges.size() == 1) {
      const Edge& edge = edges[0].stage.edge;
      c.peer = Rank{edge.sender == *proxy ? edge.receiver : edge.sender};
      c.channel = edges[0].channel;
    }
    c.lost_time_share = w.communication_ns / total;
    f.culprits.push_back(std::move(c));
  }
  for (const SlowEdge& e : edges) {
    if (proxy) break;
    Culprit c = culprit_of(comm, e.stage, e.channel);
    c.lost_time_share = w.communication_ns / total * e.queued / queued;
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
  }
  if (computation && named) {
    f.fault = FaultClass::s3_mixed_slow;
    f.confidence = 0.85;
  } else if (computation) {
    f.fault = FaultClass::s1_computation_slow;
    f.confidence = communication ? 0.75 : 0.9;
  } else {
    f.fault = FaultClass::s2_communication_slow;
    f.confidence = named ? 0.9 : 0.3;
  }
  f.next_step = next_step_of(f);
  if (!named && !computation) {
    // Who is not measured may be late unseen.
    for (size_t r = 0; r < w.ranks.size(); ++r)
      if (2 * w.ranks[r].untimed > w.slow_rounds) f.candidates.push_back(Rank{static_cast<int32_t>(r)});
    if (!f.candidates.empty())
      f.next_step =
          "The kernels of the candidates are not measured: one of them may come late. Compare their hosts and GPUs.";
  }
  collect_victims(comm, f);
  return f;
}

namespace {

// A proxy that is known by one of its connections now and by all of them then.
bool is_proxy_of(const Culprit& proxy, const Culprit& connection) {
  return proxy.component == Component::proxy && (connection.peer || connection.component == Component::proxy) &&
         (connection.rank == proxy.rank || connection.peer == proxy.rank);
}

}  // namespace

bool same_cause(const std::vector<Culprit>& a, const std::vector<Culprit>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  for (const Culprit& x : a)
    for (const Culprit& y : b)
      if ((x.rank == y.rank && x.peer == y.peer) || is_proxy_of(x, y) || is_proxy_of(y, x)) return true;
  return false;
}

bool same_cause(const Finding& a, const Finding& b) { return same_cause(a.culprits, b.culprits); }

}  // namespace ccld::decision
