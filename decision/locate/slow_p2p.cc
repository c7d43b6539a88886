#include "decision/locate/slow_p2p.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ccld::decision {
namespace {

using RankTimes = SlowPairsDetector::RankTimes;
using Pair = SlowPairsDetector::Pair;

constexpr double explains_min = 0.5;  // a rank or link is the cause of a loss if it explains half of it
constexpr double queued_part_min =
    0.25;                          // of the longer gaps: a GPU that is slow lets the kernel wait after its launch
constexpr double only_part = 0.8;  // and a link only if no other grew nearly as much

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

std::optional<Finding> locate_slow_p2p(const Communicator& comm, const SlowPairsDetector& window,
                                       const Settings& settings, double& lost_share) {
  // Each rank with itself: those with one neighbour have fewer kernels a step than those with two.
  std::vector<double> shares, cycles, now;
  const auto growth_ns = [](const RankTimes& r) {
    return (r.gap_ns + r.busy_ns) / r.kernels - r.usual_cycle_ns.mean();
  };
  for (const RankTimes& r : window.ranks()) {
    if (r.kernels == 0) continue;
    cycles.push_back(r.usual_cycle_ns.mean());
    now.push_back((r.gap_ns + r.busy_ns) / r.kernels);
    shares.push_back(now.back() > 0 ? growth_ns(r) / now.back() : 0);
  }
  if (shares.size() < 2) return std::nullopt;
  lost_share = std::max(0.0, median(shares));
  if (lost_share < settings.slow_lost_share_min) return std::nullopt;

  Finding f;
  f.signature.function = abi::Function::send;
  add_evidence(f, -1, "time from one Send or Recv kernel to the next, usually", median(cycles) / 1e6, "ms");
  add_evidence(f, -1, "and now", median(now) / 1e6, "ms");
  double explained = 0;
  struct Grown {
    double ns, part;  // of what its rank takes longer
    Pair pair;
  };
  std::vector<Grown> late, links;
  size_t busier = 0;  // ranks whose own work explains what they take longer
  for (const RankTimes& own : window.ranks()) {
    const int32_t r = own.rank.value;
    if (own.kernels == 0 || growth_ns(own) <= 0) continue;
    const double grown_ns = own.gap_ns / own.kernels - own.usual_gap_ns.mean();
    const double part = std::min(1.0, grown_ns / growth_ns(own));
    if (part < explains_min) continue;
    ++busier;
    if (grown_ns < settings.slow_spread_factor * own.usual_gap_ns.deviation()) continue;
    late.push_back({grown_ns, part, {r, -1}});
    explained = std::max(explained, part);
  }
  // All ranks at once: the job does something else.
  if (2 * busier > shares.size() && shares.size() > 2) return std::nullopt;
  if (explained < 1 - settings.slow_component_share_min) {
    for (const auto& [pair, t] : window.pairs()) {
      if (t.count == 0 || t.usual_ns.samples() < SlowPairsDetector::learn_min) continue;
      const double grown_ns = t.sum_ns / t.count - t.usual_ns.mean();
      if (grown_ns < settings.slow_spread_factor * t.usual_ns.deviation()) continue;
      // Of what both ends take longer.
      double part = 1;
      for (int32_t r : {pair.first, pair.second}) {
        const RankTimes* const end = window.ranks().find(r);
        const double rank_ns = !end || end->kernels == 0 ? 0 : growth_ns(*end) * end->kernels;
        part = rank_ns > 0 ? std::min(part, grown_ns * t.count / rank_ns) : 0;
      }
      if (part >= explains_min * (1 - explained)) links.push_back({grown_ns, part, pair});
    }
    std::sort(links.begin(), links.end(),
              [](const Grown& a, const Grown& b) { return a.ns > b.ns || (a.ns == b.ns && a.pair < b.pair); });
    for (size_t i = 0; i < std::min<size_t>(links.size(), 4); ++i)
      add_evidence(f, links[i].pair.first,
                   absl::StrCat("transfer to rank ", links[i].pair.second, " longer than usual by"), links[i].ns / 1e6,
                   "ms");
  }
  const bool one_link = !links.empty() && (links.size() == 1 || links[1].ns < only_part * links[0].ns);
  if (late.empty() && !one_link) {
    // Several that wait in the same kernels: somebody among them.
    for (const Grown& g : links)
      for (int32_t r : {g.pair.first, g.pair.second})
        if (std::find(f.candidates.begin(), f.candidates.end(), Rank{r}) == f.candidates.end())
          f.candidates.push_back(Rank{r});
    if (f.candidates.empty() || f.candidates.size() >= shares.size()) return std::nullopt;
  }
  double sum = one_link ? links[0].part : 0;
  for (const Grown& g : late) sum += g.part;
  const double scale = 1 / std::max(sum, 1.0);
  for (const Grown& g : late) {
    if (f.culprits.size() == culprits_max) break;
    const RankTimes& own = *window.ranks().find(g.pair.first);
    const double queued_ns = own.has_usual && own.launches > 0 ? own.queued_ns / own.launches - own.usual_queued_ns : 0;
    const bool queued = queued_ns >= queued_part_min * g.ns;
    Culprit c = make_culprit(comm, Rank{g.pair.first}, queued ? Component::gpu : Component::process,
                             absl::StrFormat("%.1f ms more than usual between its Send and Recv kernels%s", g.ns / 1e6,
                                             queued ? ": its GPU was busy after their launch" : ""));
    if (queued)
      add_evidence(f, g.pair.first, "time from launch to begin of its kernels beyond its usual one", queued_ns / 1e6,
                   "ms");
    c.lost_time_share = g.part * scale;
    c.queued_part = std::clamp(queued_ns / g.ns, 0.0, 1.0);
    add_evidence(f, g.pair.first, "time between kernels beyond its usual one", g.ns / 1e6, "ms");
    f.culprits.push_back(std::move(c));
  }
  if (one_link) {
    const Rank sender{links[0].pair.first}, receiver{links[0].pair.second};
    Culprit c = make_culprit(
        comm, sender, Component::link,
        absl::StrFormat("its transfers to rank %d take %.1f ms longer than usual", receiver.value, links[0].ns / 1e6));
    c.peer = receiver;
    c.net_name = net_name_of(comm, sender, abi::Direction::send, receiver, -1);
    c.lost_time_share = links[0].part * scale;
    f.culprits.push_back(std::move(c));
  }
  f.fault = late.empty() ? FaultClass::s2_communication_slow
            : one_link   ? FaultClass::s3_mixed_slow
                         : FaultClass::s1_computation_slow;
  f.confidence = f.culprits.empty() ? 0.3 : 0.75;
  f.next_step =
      late.empty()
          ? "Check the named connection: negotiated rate, errors, congestion, other traffic."
          : "Compare GPU clocks, temperature and power, CPU load and data loading of the named rank with its peers'.";
  for (int r = 0; r < comm.rank_count(); ++r)
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == r; }))
      f.victims.push_back(Rank{r});
  return f;
}

}  // namespace ccld::decision
