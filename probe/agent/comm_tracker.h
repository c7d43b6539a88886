// What samples of one communicator's frame add up to: finished rounds and point-to-point calls, rates, stages of links,
// and where everything stands. (Paper, sections 4.1 and 5.2: SendCount/RecvCount, SendRate/RecvRate, host-driven
// measurement.)
//
//   operation_records.h   what was entered and has not ended   captured_plans.h     of it, what is in graphs
//   kernel_follower.h     kernels, from the runs of channels   channel_endpoints.h  what they do on one channel
//   proxy_watch.h         proxies, and stages of links         finished_rounds.h    what has ended, to be handed out
//   in_flight_report.h    snapshots
//
// Contract
//   sample() is called with non-decreasing instants and reads what can have moved; everything else reports from what
//   was seen. Ages are those of observations: an age cannot be smaller than the time since the last sample, nor larger
//   than since the first. Memory is bounded by the operations in flight (CUDA's launch queue), the constants of frame.h
//   and the limits of the parts.
//
// Threads: one thread at a time (the agent's lock).
#pragma once

#include <algorithm>
#include <cstdint>

#include "probe/agent/clock.h"
#include "probe/agent/finished_rounds.h"
#include "probe/agent/in_flight_report.h"
#include "probe/agent/kernel_follower.h"
#include "probe/agent/operation_records.h"
#include "probe/agent/proxy_watch.h"
#include "probe/transport/messages.h"

namespace ccld::probe {

struct TrackerOptions {
  uint64_t late_ns = 0;
  uint64_t poll_fresh_ns = 0;
  bool keep_rounds = true;  // false: nobody wants them
};

// Kernels that left no rows are looked for that often.
constexpr uint64_t retire_look_ns = 100 * ns_per_ms;

class CommTracker {
 public:
  CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions&, Instant now);
  CommTracker(const CommTracker&) = delete;
  CommTracker& operator=(const CommTracker&) = delete;

  void sample(Instant now);
  // A word of the training path has changed since the last sample: there is something to look at.
  bool news() const { return !(records_.read_counts() == records_.counts()); }
  // Recording was stopped until now: what is missing is nobody's loss.
  void resumed() { sampling_.forgive = true; }

  // Something is in flight, or steps of finished kernels are still on their way.
  bool busy() const { return in_flight() || finished_.has_open_links(); }
  bool in_flight() const { return records_.any() || !kernels_.running().empty(); }
  // Kernels may begin without a word of the host.
  bool replays() const { return records_.counts().captured_plans != 0; }
  // Something is in flight and nothing has moved for late_ns.
  bool late(Instant now) const { return in_flight() && moved_age_ns(now) >= late_ns_; }
  uint64_t moved_age_ns(Instant now) const { return now.monotonic_ns - moved_ns_; }
  uint64_t completed_op_seq() const { return records_.completed_op_seq(); }
  uint64_t entered_op_seq() const { return records_.counts().entered_op_seq; }
  uint64_t unseen_while_stopped() const { return records_.counts().unseen_while_stopped; }
  uint64_t lapped_rounds() const { return sampling_.lapped_rounds; }
  uint64_t lapped_calls() const { return sampling_.lapped_calls; }
  SummedRuns summed_kernels() const {
    SummedRuns all = kernels_.summed();
    all.add(finished_.dropped_sums());
    return all;
  }
  uint64_t forgotten_captures() const { return records_.captured().forgotten(); }
  uint64_t dropped_rounds() const { return finished_.dropped(); }
  uint64_t finished_rounds() const { return finished_.finished(); }
  uint64_t movement() const { return movement_; }
  // What fills the rings of the frame, in kernels per channel: a sampling period must not let them overflow.
  uint64_t events() const {
    constexpr unsigned ops_per_run = abi::ops_max / abi::rounds_max, p2ps_per_run = abi::p2ps_max / abi::rounds_max;
    const OperationRecords::Counts& counts = records_.counts();
    return std::max({kernels_.runs_seen(), counts.entered_op_seq / ops_per_run, counts.entered_p2p / p2ps_per_run});
  }
  void keep_rounds(bool keep) { finished_.keep(keep); }

  InFlightMessage in_flight_message(Instant now) const;
  // While recording is stopped: only what the training path goes on counting.
  InFlightMessage stopped_message(Instant now) const;
  bool has_rounds() const { return finished_.has_rounds(); }
  // Moves out the finished rounds, or calls, except the newest ones whose links are still open (all with `everything`).
  RoundsMessage take_rounds(Instant now, bool everything) { return finished_.take_rounds(now, everything); }
  bool has_p2p() const { return finished_.has_calls(); }
  P2pRoundsMessage take_p2p(Instant now, bool everything) { return finished_.take_calls(now, everything); }

 private:
  InFlightMessage empty_message(const OperationRecords::Counts&, Instant now) const;

  const abi::FrameView frame_;
  const uint64_t comm_uid_;
  const int rank_;
  const uint64_t late_ns_;
  const Rows rows_;
  FinishedRounds finished_;
  OperationRecords records_;
  ProxyWatch proxies_;
  KernelFollower kernels_;
  Sampling sampling_;
  uint64_t sampled_ns_ = 0;
  uint64_t apart_ns_ = ns_per_ms;  // two samples while something was in flight; at first the default of the setting
  uint64_t slow_looked_ns_ = 0, retire_looked_ns_ = 0;
  uint64_t movement_ = 0, moved_ns_ = 0;
};

}  // namespace ccld::probe
