// What samples of one communicator's frame add up to: finished rounds, rates, stages of links, and where everything
// stands. (Paper, sections 4.1 and 5.2: SendCount/RecvCount, SendRate/RecvRate, host-driven measurement.)
//
// Contract
//   sample() is called with non-decreasing instants and reads the frame once; everything else reports from what was
//   seen. Ages are those of observations: an age cannot be smaller than the time since the last sample, nor larger than
//   since the first. Operations are followed by kernel: those that share a kernel begin and end together, and kernels
//   of one communicator run one after the other in the order of their tokens. What the frame does not show is never
//   guessed: operations without a kernel, recorded into a graph, or run by other means than the watched kernels count
//   as completed when they were handed over. Memory is bounded by the operations in flight (CUDA's launch queue), the
//   constants of frame.h and `rounds_pending_max`.
//
// Threads: one thread at a time (the agent's lock).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/agent/link_stages.h"
#include "probe/transport/messages.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

struct TrackerOptions {
  uint64_t late_ns = 0;
  uint64_t poll_fresh_ns = 0;
  bool keep_rounds = true;  // false: nobody wants them
};

constexpr uint32_t age_never = 0xffffffffu;
// One flush carries at most this many rounds. At one flush in 100 ms this is 40,000 operations a second; above, the
// oldest are dropped.
constexpr size_t rounds_pending_max = 4096;
// Stages of links are kept for the longest rounds of a flush, up to this many rows (56 KiB).
constexpr size_t links_per_message_max = 1024;
// Rounds that lasted fewer samples say nothing about stages.
constexpr uint32_t link_samples_min = 3;
// How long the proxies of a finished kernel are watched for steps that are still on their way.
constexpr uint64_t link_settle_ns = 50 * ns_per_ms;
constexpr size_t operations_reported_max = 16;

class CommTracker {
 public:
  CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions&, Instant now);

  void sample(Instant now);

  // Something is entered and not completed, or steps of finished kernels are still on their way.
  bool busy() const { return !operations_.empty() || open_links_ > 0; }
  bool in_flight() const { return !operations_.empty(); }
  // Something is in flight and nothing has moved for late_ns.
  bool late(Instant now) const { return in_flight() && moved_age_ns(now) >= options_.late_ns; }
  uint64_t moved_age_ns(Instant now) const { return now.monotonic_ns - moved_ns_; }
  uint64_t completed_op_seq() const { return completed_op_seq_; }
  uint64_t entered_op_seq() const { return entered_op_seq_; }
  uint64_t lapped_rounds() const { return lapped_rounds_; }
  uint64_t dropped_rounds() const { return dropped_rounds_; }
  uint64_t movement() const { return movement_; }

  InFlightMessage in_flight_message(Instant now) const;
  bool has_rounds() const { return !pending_.empty(); }
  // Moves out the finished rounds, except the newest ones whose links are still open (all with `everything`).
  RoundsMessage take_rounds(Instant now, bool everything);

 private:
  struct Operation {
    uint64_t op_seq = 0;
    bool known = false;  // the record was read
    bool done = false;
    abi::OpRecord record{};
    bool launched() const { return (record.flags & abi::op_launched) != 0; }
  };
  struct LaneTrack {
    uint32_t token = 0;
    bool in_use = false;
    abi::Lane lane{};
    uint64_t moved_ns = 0;
    uint64_t polled_ns = 0;  // 0: never seen polling
    abi::WaitKind wait = abi::WaitKind::none;
    uint32_t want_step = 0;
    bool certain = false;
    uint64_t wait_since_ns = 0;
    size_t link = 0;
  };
  struct ChannelTrack {
    uint32_t token = 0;  // of the kernel that the fields below belong to
    bool begun = false;
    bool ended = false;
    bool lapped = false;        // a later kernel took the rows
    bool overwritten = false;   // a later kernel took lanes
    bool final_counts = false;  // lanes were read after the end
    bool ticks_known = false;
    uint64_t begun_seen_ns = 0;
    uint64_t polled_ns = 0;
    abi::RoundEdge begin, end;
    uint32_t warp_tick[abi::warps_max] = {};
    uint64_t warp_polled_ns[abi::warps_max] = {};
    LaneTrack lanes[abi::directions][abi::lanes_per_direction];
  };
  struct ProxyTrack {
    bool known = false;
    abi::ProxyRecord record{};
    uint64_t tick_ns = 0;
    uint64_t moved_ns = 0;
  };
  // The kernel that is followed: the oldest one that has not ended.
  struct Kernel {
    uint32_t token = 0;  // 0: none
    uint64_t channel_mask = 0;
    bool all_waits_announced = false;  // all its operations use the Simple protocol
    bool begun = false;
    uint32_t samples = 0;
    uint32_t send_steps = 0, recv_steps = 0;
    uint32_t send_changes = 0, recv_changes = 0;
    std::vector<LinkTrack> links;
    // Lanes open when a kernel begins: later, one that it has not opened is none of its own.
    bool lanes_known() const { return samples >= 2 && !links.empty(); }
  };
  struct PendingRound {
    FinishedRound round;
    uint64_t finished_ns = 0;
    std::vector<LinkTrack> links;
    bool open = false;  // links are not settled
  };

  void take_new_operations();
  void refresh_operations(Instant now);
  bool choose_kernel();
  bool read_rounds(Instant now);  // true: the kernel has ended on all its channels
  void observe_kernel(Instant now);
  void observe_channel(uint32_t index, Instant now);
  bool recover_final_step(LaneTrack& track, const abi::Lane& successor, Instant now);
  void observe_polls(uint32_t index, Instant now);
  void observe_waits(uint32_t index, Instant now);
  LinkTrack& link_of(LaneTrack& track, uint32_t index, abi::Direction, uint32_t lane_number);
  void finish_kernel(Instant now);
  bool later_kernel_ended() const;
  void sample_proxies(Instant now);
  void update_links(std::vector<LinkTrack>& links, int64_t realtime_ns) const;
  std::vector<uint16_t>& proxies_at(uint32_t channel, abi::Direction direction) {
    return proxies_of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }
  const std::vector<uint16_t>& proxies_at(uint32_t channel, abi::Direction direction) const {
    return proxies_of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }
  void close_links(Instant now);
  void add_round(const Operation&, FinishedRound round, std::vector<LinkTrack> links, Instant now);
  void pop_done();
  bool has_kernel(const Operation&) const;
  bool lane_polls(const LaneTrack&, Instant now) const;
  bool warps_poll(const ChannelTrack&, const abi::Lane&, Instant now) const;
  void moved() { moved_in_sample_ = true; }
  wire::OpSignature signature(const abi::OpRecord&) const;

  const abi::FrameView frame_;
  const uint64_t comm_uid_;
  const int rank_;
  const TrackerOptions options_;

  uint64_t entered_op_seq_ = 0, launched_op_seq_ = 0, completed_op_seq_ = 0, entered_p2p_ = 0;
  std::deque<Operation> operations_;  // entered and not completed, oldest first
  Kernel kernel_;
  std::vector<ChannelTrack> channels_;
  std::vector<ProxyTrack> proxies_;
  std::vector<std::vector<uint16_t>> proxies_of_;  // by channel and direction: indices of proxies_
  uint64_t proxy_ticks_ = 0, proxy_tick_ns_ = 0;
  std::deque<PendingRound> pending_;
  size_t open_links_ = 0;  // pending rounds with open links
  uint64_t samples_ = 0;
  uint64_t lapped_rounds_ = 0, dropped_rounds_ = 0;
  bool moved_in_sample_ = false;
  uint64_t movement_ = 0, moved_ns_ = 0;
};

}  // namespace ccld::probe
