#include "decision/detect/slow_p2p.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ccld::decision {
namespace {

constexpr size_t half_max = 16;         // calls of a pair that wait for their other side
constexpr size_t pairs_per_rank = 4, pairs_min = 256;
constexpr double queued_part_learnt = 0.2;  // of a healthy window: clocks drift

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
  const int n = comm.rank_count();
  if (!comm.rank_count_known() || m.rank.value < 0 || m.rank.value >= n) return;
  const RankModel* member = comm.rank(m.rank);
  if (!member || member->process != &process) return;
  if (ranks_.size() == 0) ranks_.set_size(n, true), started_ns_ = now_ns;
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

void SlowPairsDetector::next_window(bool healthy, Nanoseconds now_ns) {
  started_ns_ = now_ns;
  // A healthy window teaches: once a window, so that minutes count and not seconds.
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

bool SlowPairsDetector::is_due(Nanoseconds now_ns) const {
  if (started_ns_ == 0) return false;
  const Nanoseconds length = std::max<Nanoseconds>(1, seconds_to_ns(settings_.slow_window_s) / 2), age = now_ns - started_ns_;
  const bool due = now_ns / length != started_ns_ / length && age >= length / 2;
  constexpr int prolonged_max = 10;
  return due && (kernels_ >= settings_.slow_rounds_min * ranks_.size() || age >= prolonged_max * length);
}

}  // namespace ccld::decision
