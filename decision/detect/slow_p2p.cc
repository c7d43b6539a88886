#include "decision/detect/slow_p2p.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/locate/busy_host.h"
#include "decision/locate/slow.h"

namespace ccld::decision {
namespace {

constexpr uint32_t learn_min = 20;      // kernels of a rank, transfers of a pair, before they are judged
constexpr size_t half_max = 16;         // calls of a pair that wait for their other side
constexpr size_t pairs_per_rank = 4, pairs_min = 256;
constexpr double explains_min = 0.5;    // a rank or link is the cause of a loss if it explains half of it
constexpr double queued_part_min = 0.25;  // of the longer gaps: a GPU that is slow lets the kernel wait after its launch
constexpr double queued_part_learnt = 0.2;  // of a healthy window: clocks drift
constexpr double only_part = 0.8;       // and a link only if no other grew nearly as much

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

void SlowPairsDetector::transferred(Pair pair, bool sender, uint64_t pair_seq, double duration_ns) {
  auto it = pairs_.find(pair);
  if (it == pairs_.end()) {
    if (pairs_.size() >= std::max(pairs_min, pairs_per_rank * ranks_.size())) return;
    it = pairs_.try_emplace(pair).first;
  }
  Transfers& t = it->second;
  if (!t.half.empty() && t.half_of_sender != sender) {
    const auto other = std::find_if(t.half.begin(), t.half.end(), [&](const auto& h) { return h.first == pair_seq; });
    if (other == t.half.end()) return;
    const double transfer_ns = std::min<double>(duration_ns, other->second);
    t.half.erase(t.half.begin(), other + 1);
    if (++t.seen <= settings_.warmup_rounds) return;
    if (t.usual_ns.samples() < learn_min) return t.usual_ns.add(transfer_ns);
    t.sum_ns += static_cast<float>(transfer_ns);
    ++t.count;
    return;
  }
  t.half_of_sender = sender;
  t.half.emplace_back(pair_seq, static_cast<float>(duration_ns));
  if (t.half.size() > half_max) t.half.pop_front();
}

void SlowPairsDetector::add(const Communicator& comm, const P2pRounds& m, const ProcessModel& process, Nanoseconds now_ns) {
  if (settings_.rules == RuleSet::paper) return;  // it looks at collectives
  const int n = comm.rank_count();
  if (!comm.rank_count_known() || m.rank.value < 0 || m.rank.value >= n) return;
  const RankModel* member = comm.rank(m.rank);
  if (!member || member->process != &process) return;
  if (ranks_.size() == 0) ranks_.set_size(n, true), started_ns_ = good_ns_ = now_ns;
  RankTimes& own = ranks_.at(m.rank.value);
  for (const P2pRound& round : m.rounds) {
    const bool timed = (round.flags & (round_no_kernel | round_lapped | round_not_measured | round_aborted)) == 0 &&
                       round.begin_device_ns != 0 && round.end_device_ns >= round.begin_device_ns;
    if (!timed || round.peer == m.rank || round.peer.value < 0 || round.peer.value >= n) continue;
    const auto busy_ns = static_cast<double>(round.end_device_ns - round.begin_device_ns);
    const bool sends = round.direction == abi::Direction::send;
    if (round.replay == 0)
      transferred(sends ? Pair{m.rank.value, round.peer.value} : Pair{round.peer.value, m.rank.value}, sends, round.pair_seq, busy_ns);
    if (round.begin_device_ns <= own.last_begin_ns) continue;  // the same kernel, or an old report
    // What else ran on the GPU in between may have been lost with a batch.
    const bool torn = process.memberships.size() > 1 && process.lost_batches() > own.lost;
    if (own.last_end_ns != 0 && round.begin_device_ns >= own.last_end_ns && !torn) {
      const double idle_ns =
          static_cast<double>(round.begin_device_ns - own.last_end_ns) -
          (process.memberships.size() > 1
               ? static_cast<double>(process.kernels.busy_in_others_ns(comm.uid(), member->cuda_device, own.last_end_ns, round.begin_device_ns))
               : 0);
      if (++own.seen > settings_.warmup_rounds) {
        if (own.usual_gap_ns.samples() < learn_min) {
          own.usual_gap_ns.add(idle_ns);
          own.usual_cycle_ns.add(idle_ns + busy_ns);
        } else {
          own.gap_ns += static_cast<float>(idle_ns);
          own.busy_ns += static_cast<float>(busy_ns);
          ++own.kernels;
          ++kernels_;
          if (round.launch_monotonic_ns != 0 && round.replay == 0) {
            const auto queued_ns = static_cast<double>(static_cast<int64_t>(round.begin_device_ns - round.launch_monotonic_ns));
            if (!std::exchange(own.has_first, true)) own.first_queued_ns = queued_ns;
            own.queued_ns += queued_ns - own.first_queued_ns;
            ++own.launches;
          }
        }
      }
    }
    own.last_begin_ns = round.begin_device_ns;
    own.last_end_ns = round.end_device_ns;
    own.lost = process.lost_batches();
  }
}

void SlowPairsDetector::next_window() {
  // A healthy window teaches: once a window, so that minutes count and not seconds.
  const bool healthy = repeats_ == 0;
  ranks_.visit_mutable([&](RankTimes& r) {
    if (healthy && r.kernels > 0) {
      r.usual_gap_ns.add(r.gap_ns / r.kernels);
      r.usual_cycle_ns.add((r.gap_ns + r.busy_ns) / r.kernels);
    }
    if (healthy && r.launches > 0) {
      const double queued_ns = r.queued_ns / r.launches;
      r.usual_queued_ns += (std::exchange(r.has_usual, true) ? queued_part_learnt : 1) * (queued_ns - r.usual_queued_ns);
    }
    r.gap_ns = r.busy_ns = 0;
    r.queued_ns = 0;
    r.kernels = r.launches = 0;
 });
  for (auto& [pair, t] : pairs_) {
    if (healthy && t.count > 0) t.usual_ns.add(t.sum_ns / t.count);
    t.sum_ns = 0;
    t.count = 0;
  }
  kernels_ = 0;
}

std::optional<Finding> SlowPairsDetector::judge(const Communicator& comm) {
  // Each rank with itself: those with one neighbour have fewer kernels a step than those with two.
  std::vector<double> shares, cycles, now;
  const auto growth_ns = [](const RankTimes& r) { return (r.gap_ns + r.busy_ns) / r.kernels - r.usual_cycle_ns.mean(); };
  for (const RankTimes& r : ranks_) {
    if (r.kernels == 0) continue;
    cycles.push_back(r.usual_cycle_ns.mean());
    now.push_back((r.gap_ns + r.busy_ns) / r.kernels);
    shares.push_back(now.back() > 0 ? growth_ns(r) / now.back() : 0);
  }
  if (shares.size() < 2) return std::nullopt;
  lost_share_ = std::max(0.0, median(shares));
  if (lost_share_ < settings_.slow_lost_share_min) return std::nullopt;

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
  for (const RankTimes& own : ranks_) {
    const int32_t r = own.rank.value;
    if (own.kernels == 0 || growth_ns(own) <= 0) continue;
    const double grown_ns = own.gap_ns / own.kernels - own.usual_gap_ns.mean();
    const double part = std::min(1.0, grown_ns / growth_ns(own));
    if (part < explains_min) continue;
    ++busier;
    if (grown_ns < settings_.slow_spread_factor * own.usual_gap_ns.deviation()) continue;
    late.push_back({grown_ns, part, {r, -1}});
    explained = std::max(explained, part);
  }
  // All ranks at once: the job does something else.
  if (2 * busier > shares.size() && shares.size() > 2) return std::nullopt;
  if (explained < 1 - settings_.slow_component_share_min) {
    for (const auto& [pair, t] : pairs_) {
      if (t.count == 0 || t.usual_ns.samples() < learn_min) continue;
      const double grown_ns = t.sum_ns / t.count - t.usual_ns.mean();
      if (grown_ns < settings_.slow_spread_factor * t.usual_ns.deviation()) continue;
      // Of what both ends take longer.
      double part = 1;
      for (int32_t r : {pair.first, pair.second}) {
        const RankTimes* const end = ranks_.find(r);
        const double rank_ns = !end || end->kernels == 0 ? 0 : growth_ns(*end) * end->kernels;
        part = rank_ns > 0 ? std::min(part, grown_ns * t.count / rank_ns) : 0;
      }
      if (part >= explains_min * (1 - explained)) links.push_back({grown_ns, part, pair});
    }
    std::sort(links.begin(), links.end(), [](const Grown& a, const Grown& b) { return a.ns > b.ns || (a.ns == b.ns && a.pair < b.pair); });
    for (size_t i = 0; i < std::min<size_t>(links.size(), 4); ++i)
      add_evidence(f, links[i].pair.first, absl::StrCat("transfer to rank ", links[i].pair.second, " longer than usual by"), links[i].ns / 1e6, "ms");
  }
  const bool one_link = !links.empty() && (links.size() == 1 || links[1].ns < only_part * links[0].ns);
  if (late.empty() && !one_link) {
    // Several that wait in the same kernels: somebody among them.
    for (const Grown& g : links)
      for (int32_t r : {g.pair.first, g.pair.second})
        if (std::find(f.candidates.begin(), f.candidates.end(), Rank{r}) == f.candidates.end()) f.candidates.push_back(Rank{r});
    if (f.candidates.empty() || f.candidates.size() >= shares.size()) return std::nullopt;
  }
  double sum = one_link ? links[0].part : 0;
  for (const Grown& g : late) sum += g.part;
  const double scale = 1 / std::max(sum, 1.0);
  for (const Grown& g : late) {
    if (f.culprits.size() == culprits_max) break;
    const RankTimes& own = *ranks_.find(g.pair.first);
    const double queued_ns = own.has_usual && own.launches > 0 ? own.queued_ns / own.launches - own.usual_queued_ns : 0;
    const bool queued = queued_ns >= queued_part_min * g.ns;
    Culprit c = make_culprit(comm, Rank{g.pair.first}, queued ? Component::gpu : Component::process,
                             absl::StrFormat("%.1f ms more than usual between its Send and Recv kernels%s", g.ns / 1e6,
                                             queued ? ": its GPU was busy after their launch" : ""));
    if (queued) add_evidence(f, g.pair.first, "time from launch to begin of its kernels beyond its usual one", queued_ns / 1e6, "ms");
    c.lost_time_share = g.part * scale;
    c.queued_part = std::clamp(queued_ns / g.ns, 0.0, 1.0);
    add_evidence(f, g.pair.first, "time between kernels beyond its usual one", g.ns / 1e6, "ms");
    f.culprits.push_back(std::move(c));
  }
  if (one_link) {
    const Rank sender{links[0].pair.first}, receiver{links[0].pair.second};
    Culprit c = make_culprit(comm, sender, Component::link,
                             absl::StrFormat("its transfers to rank %d take %.1f ms longer than usual", receiver.value, links[0].ns / 1e6));
    c.peer = receiver;
    c.net_name = net_name_of(comm, sender, abi::Direction::send, receiver, -1);
    c.lost_time_share = links[0].part * scale;
    f.culprits.push_back(std::move(c));
  }
  f.fault = late.empty() ? FaultClass::s2_communication_slow : one_link ? FaultClass::s3_mixed_slow : FaultClass::s1_computation_slow;
  f.confidence = f.culprits.empty() ? 0.3 : 0.75;
  f.next_step = late.empty() ? "Check the named connection: negotiated rate, errors, congestion, other traffic."
                             : "Compare GPU clocks, temperature and power, CPU load and data loading of the named rank with its peers'.";
  for (int r = 0; r < comm.rank_count(); ++r)
    if (std::none_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return c.rank.value == r; }))
      f.victims.push_back(Rank{r});
  return f;
}

SlowReport SlowPairsDetector::advance(const Communicator& comm, bool open, Nanoseconds now_ns) {
  SlowReport report;
  if (started_ns_ == 0) return report;
  const Nanoseconds length = std::max<Nanoseconds>(1, seconds_to_ns(settings_.slow_window_s) / 2), age = now_ns - started_ns_;
  const bool due = now_ns / length != started_ns_ / length && age >= length / 2;
  constexpr int prolonged_max = 10;
  if (!due || (kernels_ < settings_.slow_rounds_min * ranks_.size() && age < prolonged_max * length)) return report;
  std::optional<Finding> finding;
  if (kernels_ > 0) finding = judge(comm);
  if (finding)
    finding = weigh_processors(comm, *std::move(finding), lost_share_ * static_cast<double>(age), {started_ns_, now_ns}, settings_);
  const Nanoseconds started_ns = std::exchange(started_ns_, now_ns);
  if (!finding) {
    repeats_ = 0;
    next_window();
    good_ns_ = now_ns;
    if (open && ++clean_ >= 2 * settings_.slow_clean_windows) {
      clean_ = 0;
      report.event = SlowEvent::resolve;
    }
    return report;
  }
  clean_ = 0;
  if (repeats_ > 0 && !same_cause(cause_, *finding)) repeats_ = 0, good_ns_ = started_ns;
  ++repeats_;
  next_window();
  cause_ = *finding;
  report.onset_ns = good_ns_;
  // Windows do not overlap here: one more than for collectives covers the same time.
  if (repeats_ < settings_.slow_repeat + (finding->culprits.empty() ? settings_.slow_repeat : 0)) return report;
  report.finding = *std::move(finding);
  report.event = repeats_ > settings_.slow_repeat && !report.finding.culprits.empty() ? SlowEvent::confirm : SlowEvent::suspect;
  return report;
}

}  // namespace ccld::decision
