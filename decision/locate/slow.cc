#include "decision/locate/slow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/locate/slow_network.h"

namespace ccld::decision {
namespace {

// A rank is the same cause over the window if it is among the last in this part of what was lost, the worst round left
// out; imbalance that moves between two ranks reaches a half.
constexpr double late_part_min = 0.6;
// Where it is doubtful what is usual, imbalance makes a loss of its own, and a few iterations in a row that are alike
// look like more than a half.
constexpr double late_part_min_doubtful = 0.9;
// And so much must be left of it after the uncertainty of a few rounds is taken off.
constexpr double late_part_sure = 0.4;
// A GPU that is slow lets the kernel wait after its launch, less so where the host waits for its GPU in between;
// kernels of a host that is late wait for less than usual.
constexpr double queued_part_min = 0.15;
// On a machine that is busy everything takes somewhat longer, and somewhat more waits everywhere: a moderate loss has
// no cause on which less than a step waits.
constexpr double queued_steps_min = 1;
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
  const double part_min = 2 * w.doubtful_ns > w.lost_ns ? late_part_min_doubtful : late_part_min;
  const bool lone = w.largest_ns >= w.computation_ns;  // all was lost in one round
  for (size_t r = 0; r < w.ranks.size(); ++r) {
    const RankLoss& own = w.ranks[r];
    if (own.late < 2 || lone) continue;
    const auto rank = static_cast<int32_t>(r);
    const bool in_worst = std::find(w.largest_late.begin(), w.largest_late.end(), rank) != w.largest_late.end();
    const double part = (own.present_ns - (in_worst ? w.largest_ns : 0)) / (w.computation_ns - w.largest_ns);
    if (part < part_min || part - 1 / std::sqrt(static_cast<double>(w.slow_rounds)) < late_part_sure) continue;
    late.ranks.push_back(Rank{rank});
    late.lost_ns += own.late_ns;
  }
  return late;
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

// The lost time by kind, and which kinds count.
struct Kinds {
  double total_ns = 0;
  LateRanks late;  // of computation
  bool computation = false, communication = false;
  bool large = false;  // communication, by its part alone
  bool kept = false;   // late because another communicator was slow
};

Kinds kinds_of(const SlowWindow& w, const Settings& settings) {
  Kinds k;
  k.total_ns = w.computation_ns + w.communication_ns + w.elsewhere_ns + w.unknown_ns;
  k.late = find_late_ranks(w);
  k.computation = !k.late.ranks.empty() && w.computation_ns >= settings.slow_component_share_min * k.total_ns;
  // What was lost while a late rank was not measured was lost by its lateness, as far as anyone knows.
  double communication_ns = w.communication_ns;
  if (!k.computation) k.late = {};
  for (Rank r : k.late.ranks) communication_ns -= w.ranks[r.value].unseen_ns;
  k.large = communication_ns >= settings.slow_component_share_min * k.total_ns;
  k.communication =
      k.large || (communication_ns >= own_loss_min * w.base_ns && communication_ns >= own_part_min * k.total_ns);
  k.kept = !k.computation && w.elsewhere_ns > w.communication_ns;
  return k;
}

// A moderate loss without a cause is the weather of the machine (that keeps several proxies from running, too), and so
// is one with a late rank that explains little of it.
bool explained(const SlowWindow& w, const Kinds& k, const SlowNetwork& n) {
  if (n.away.size() == 1) return true;
  if (std::any_of(n.edges.begin(), n.edges.end(), [](const SlowEdge& e) { return e.queued >= queued_steps_min; }))
    return true;
  if (!k.computation) return false;
  const bool often = std::any_of(k.late.ranks.begin(), k.late.ranks.end(), [&](Rank r) {
    return w.ranks[r.value].late >= explained_part_min * static_cast<double>(w.slow_rounds);
  });
  return w.computation_ns >= (often ? explained_part_min : now_and_then_part_min) * (k.total_ns - w.elsewhere_ns);
}

void name_late_ranks(const Communicator& comm, const SlowWindow& w, const Kinds& k, const Settings& settings,
                     Finding& f) {
  for (Rank r : k.late.ranks) {
    const RankLoss& own = w.ranks[r.value];
    const double lost_ns = own.late_ns, rounds = static_cast<double>(std::max(own.late, 1u));
    // What lies after the last other kernel on its GPU tells these two, if it is enough to be called a cause.
    const double told_ns = own.idle_ns >= settings.slow_component_share_min * lost_ns ? own.idle_ns : lost_ns;
    const bool queued = own.queued_ns >= queued_part_min * told_ns;
    Culprit c = make_culprit(
        comm, r, queued ? Component::gpu : Component::process,
        absl::StrFormat("%.1f ms later than its peers in %.0f of %u slow rounds: %s", lost_ns / rounds / 1e6, rounds,
                        w.slow_rounds, queued ? "its GPU was busy before the kernel began" : "it launches late"));
    c.lost_time_share = k.late.lost_ns > 0 ? w.computation_ns / k.total_ns * lost_ns / k.late.lost_ns : 0;
    c.queued_part = std::clamp(own.queued_ns / lost_ns, 0.0, 1.0);
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
    add_evidence(f, r.value, "gap between operations beyond its peers'", lost_ns / rounds / 1e6, "ms");
    add_evidence(f, r.value, "of it from launch to begin of the kernel", std::max(0.0, own.queued_ns / rounds / 1e6),
                 "ms");
  }
}

}  // namespace

std::string slow_next_step(const Finding& f) {
  const auto names = [&](Component component) {
    return std::any_of(f.culprits.begin(), f.culprits.end(),
                       [&](const Culprit& c) { return c.component == component; });
  };
  const bool network = names(Component::link) || names(Component::nic), proxy = names(Component::proxy);
  if (f.fault == FaultClass::s1_computation_slow)
    return "Compare GPU clocks, temperature and power, CPU load and data loading of the named rank with its peers'.";
  if (f.fault == FaultClass::s3_mixed_slow)
    return absl::StrCat("Two causes: look at the late rank (GPU clocks, data loading, host) and at the named ",
                        network ? "link."
                        : proxy ? "proxy (what else runs on its processors)."
                                : "GPU.");
  if (f.culprits.empty())
    return "No link stands out: compare link rates of all nodes, and check whether the whole fabric or machine is "
           "busy.";
  if (proxy && !network)
    return "Check what else runs on the processors of the named process: its proxy thread waits for one (quota, "
           "pinning, data loaders), or hangs in a call of its own.";
  return "Check the named device or link: negotiated rate, errors, congestion, other traffic.";
}

std::optional<Finding> locate_slow(const Communicator& comm, const SlowWindow& w, const Settings& settings) {
  Finding f;
  f.op = w.first_slow_op;
  f.replay = w.first_slow_replay;
  f.signature = w.signature;
  describe_window(f, w);
  const Kinds k = kinds_of(w, settings);
  if (k.total_ns <= 0) return std::nullopt;
  const bool little = w.communication_ns < settings.slow_lost_share_min * w.comm_time_ns;
  // The other communicator has the finding, unless what is lost here makes this one slow too, or is much of it and
  // stands in front of something.
  const bool own = k.large && w.communication_ns >= own_loss_min * w.base_ns;
  if (k.kept && little && !own) return std::nullopt;
  if (!k.computation && !k.communication) return std::nullopt;
  // Lateness that moves from rank to rank is no fault, however much it takes.
  if (!k.computation && w.computation_ns > w.communication_ns && little) return std::nullopt;

  SlowNetwork n;
  const double waiting_steps_min = k.large && !(k.kept && little) ? 0 : standing_steps_min;
  if (k.communication) n = find_slow_network(comm, w, k.late.ranks, k.computation || k.kept, waiting_steps_min, f);
  // Ranks that are kept make many edges wait: only one that stands out is a cause of its own.
  if (k.kept && n.away.empty() && n.edges.size() != 1 && !n.proxy) return std::nullopt;
  if (w.lost_ns <= settings.slow_theta * w.base_ns && !explained(w, k, n)) return std::nullopt;

  if (k.computation) name_late_ranks(comm, w, k, settings, f);
  name_slow_network(comm, w, n, w.communication_ns / k.total_ns, f);
  if (k.computation && n.named()) {
    f.fault = FaultClass::s3_mixed_slow;
    f.confidence = 0.85;
  } else if (k.computation) {
    f.fault = FaultClass::s1_computation_slow;
    f.confidence = k.communication ? 0.75 : 0.9;
  } else {
    f.fault = FaultClass::s2_communication_slow;
    f.confidence = n.named() ? 0.9 : 0.3;
  }
  f.next_step = slow_next_step(f);
  if (!n.named() && !k.computation) {
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
