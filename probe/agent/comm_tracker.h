// What samples of one communicator's frame add up to: finished rounds and point-to-point calls, rates, stages of links,
// and where everything stands. (Paper, sections 4.1 and 5.2: SendCount/RecvCount, SendRate/RecvRate, host-driven
// measurement.)
//
// Contract
//   sample() is called with non-decreasing instants and reads what can have moved; everything else reports from what
//   was seen. Ages are those of observations: an age cannot be smaller than the time since the last sample, nor larger
//   than since the first. A kernel is the runs of one launch (or of one replay of a graph) on its channels; the
//   operations and calls that it carries end with it. Kernels of one communicator run one after the other, in the order
//   of their tokens where they are launched by the host. What the frame does not show is never guessed: operations
//   without a kernel, or run by means that write nothing, count as completed when they were handed over. Memory is
//   bounded by the operations in flight (CUDA's launch queue), the constants of frame.h and the limits below.
//
// Threads: one thread at a time (the agent's lock).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/agent/link_stages.h"
#include "probe/agent/run_follower.h"
#include "probe/transport/messages.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

struct TrackerOptions {
  uint64_t late_ns = 0;
  uint64_t poll_fresh_ns = 0;
  bool keep_rounds = true;  // false: nobody wants them
};

constexpr uint32_t age_never = 0xffffffffu;
// One flush carries at most this many rounds, and as many calls. At one flush in 100 ms this is 40,000 operations a
// second; above, the oldest are dropped.
constexpr size_t rounds_pending_max = 4096;
// Stages of links are kept for the longest rounds of a flush, up to this many rows (56 KiB).
constexpr size_t links_per_message_max = 1024;
// Rounds that lasted fewer samples say nothing about stages.
constexpr uint32_t link_samples_min = 3;
// Between two samples that are further apart nobody can tell who did not run: it may have been the sampling thread.
constexpr uint64_t unvisited_interval_max_ns = 20 * ns_per_ms;
// How long the proxies of a finished kernel are watched for steps that are still on their way.
constexpr uint64_t link_settle_ns = 50 * ns_per_ms;
constexpr size_t operations_reported_max = 16;
constexpr size_t p2p_reported_max = 64;
// Operations and calls that were recorded into graphs and may be replayed (about 1 MiB); beyond, the kernel that was
// recorded first is forgotten (and counted), and its replays are not followed any more.
constexpr size_t captured_max = 8192;
// What changes slowly or costs much is looked at that often: poll ticks and waits (they matter once nothing moves), new
// lanes, records that are waited for, kernels whose end may never come.
constexpr uint64_t slow_look_ns = 8 * ns_per_ms;
// Kernels that left no rows are looked for that often.
constexpr uint64_t retire_look_ns = 100 * ns_per_ms;

class CommTracker {
 public:
  CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions&, Instant now);

  void sample(Instant now);
  // A word of the training path has changed since the last sample: there is something to look at.
  bool news() const;
  // Recording was stopped until now: what is missing is nobody's loss.
  void resumed() { forgive_ = true; }

  // Something is in flight, or steps of finished kernels are still on their way.
  bool busy() const { return in_flight() || open_links_ > 0; }
  bool in_flight() const { return !operations_.empty() || !calls_.empty() || !kernels_.empty(); }
  // Kernels may begin without a word of the host.
  bool replays() const { return api_.captured_plans != 0; }
  // Something is in flight and nothing has moved for late_ns.
  bool late(Instant now) const { return in_flight() && moved_age_ns(now) >= options_.late_ns; }
  uint64_t moved_age_ns(Instant now) const { return now.monotonic_ns - moved_ns_; }
  uint64_t completed_op_seq() const { return completed_op_seq_; }
  uint64_t entered_op_seq() const { return api_.entered_op_seq; }
  uint64_t unseen_while_stopped() const { return api_.unseen_while_stopped; }
  uint64_t lapped_rounds() const { return lapped_rounds_; }
  uint64_t lapped_calls() const { return lapped_calls_; }
  uint64_t forgotten_captures() const { return forgotten_captures_; }
  uint64_t dropped_rounds() const { return dropped_rounds_; }
  uint64_t finished_rounds() const { return finished_rounds_; }
  uint64_t movement() const { return movement_; }
  // What fills the rings of the frame, in kernels per channel: a sampling period must not let them overflow.
  uint64_t events() const {
    constexpr unsigned ops_per_run = abi::ops_max / abi::rounds_max, p2ps_per_run = abi::p2ps_max / abi::rounds_max;
    return std::max({runs_seen_, api_.entered_op_seq / ops_per_run, api_.entered_p2p / p2ps_per_run});
  }
  void keep_rounds(bool keep) { options_.keep_rounds = keep; }

  InFlightMessage in_flight_message(Instant now) const;
  // While recording is stopped: only what the training path goes on counting.
  InFlightMessage stopped_message(Instant now) const;
  bool has_rounds() const { return !pending_.empty(); }
  // Moves out the finished rounds, except the newest ones whose links are still open (all with `everything`).
  RoundsMessage take_rounds(Instant now, bool everything);
  bool has_p2p() const { return !pending_p2p_.empty(); }
  P2pRoundsMessage take_p2p();

 private:
  friend class RunFollower;

  struct Api {
    uint64_t entered_op_seq = 0, launched_op_seq = 0, launched_plan = 0, entered_p2p = 0, launched_p2p = 0;
    uint64_t captured_plans = 0, unseen_while_stopped = 0;
    bool operator==(const Api& o) const {
      return entered_op_seq == o.entered_op_seq && launched_op_seq == o.launched_op_seq &&
             launched_plan == o.launched_plan && entered_p2p == o.entered_p2p && launched_p2p == o.launched_p2p &&
             captured_plans == o.captured_plans && unseen_while_stopped == o.unseen_while_stopped;
    }
  };
  // A collective or a Send or Recv call that is entered and not completed.
  template <class Record>
  struct Tracked {
    uint64_t number = 0;
    bool known = false;  // the record was read
    bool done = false;
    uint64_t passed_by_ns = 0;  // launch of a later one that has ended before this one was planned
    Record record{};
    bool launched() const { return (record.flags & abi::op_launched) != 0; }
  };
  using Operation = Tracked<abi::OpRecord>;
  using Call = Tracked<abi::P2pRecord>;
  struct LaneTrack {
    uint32_t run = 0;
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
  struct Kernel;
  struct ChannelTrack {
    RunFollower runs;
    uint64_t begun = 0;        // runs
    Kernel* kernel = nullptr;  // of the open run; null: of nothing that is known
    bool ticks_known = false;
    uint64_t begun_seen_ns = 0;
    uint64_t polled_ns = 0;
    uint64_t lanes_looked_ns = 0;
    uint32_t lanes_in_use[abi::directions] = {};  // of the open run, a bit each
    uint32_t warp_tick[abi::warps_max] = {};
    uint64_t warp_polled_ns[abi::warps_max] = {};
    std::unique_ptr<LaneTrack[]> lanes;  // directions x lanes_per_direction; from the first look on
    LaneTrack& lane(unsigned direction, uint32_t index) const {
      return lanes[direction * abi::lanes_per_direction + index];
    }
  };
  struct ProxyTrack {
    bool known = false;
    abi::ProxyRecord record{};
    uint64_t tick_ns = 0;
    uint64_t moved_ns = 0;
  };
  // A launch, or a replay, that has begun and not ended.
  struct Kernel {
    uint32_t token = 0;
    bool captured = false;
    uint32_t replay = 0;
    uint32_t lowest_run = 0;  // on the lowest channel; 0: not begun there
    uint64_t channel_mask = 0;
    uint64_t begun = 0, ended = 0;     // of channel_mask
    bool all_waits_announced = false;  // all its operations use the Simple protocol
    bool lapped = false;
    bool counts_valid = true;
    uint32_t end_flags = 0;
    uint64_t first_begin_ns = 0;  // of the run that was seen first
    uint64_t begin_ns = ~uint64_t{0}, end_ns = 0;
    uint32_t samples = 0;
    uint32_t send_steps = 0, recv_steps = 0;  // of the last sample
    uint32_t ended_send = 0, ended_recv = 0;  // of the channels that have ended, exact
    uint32_t send_changes = 0, recv_changes = 0;
    std::vector<LinkTrack> links;
  };
  // What a kernel carries, as found in the records.
  struct Cargo {
    uint64_t channel_mask = 0;
    uint32_t items = 0;
    bool captured = false;
    bool all_waits_announced = true;
    uint32_t lowest_channel() const { return static_cast<uint32_t>(__builtin_ctzll(channel_mask)); }
  };
  struct CapturedPlan {
    std::vector<abi::OpRecord> operations;
    std::vector<abi::P2pRecord> calls;
    uint64_t channel_mask = 0;
    uint32_t replay_slot = 0;
    uint32_t last_replay = 0;
    bool uncounted = false;  // without a slot, and runs were missed: its replays have no number any more
  };
  struct PendingRound {
    FinishedRound round;
    uint64_t finished_ns = 0;
    std::vector<LinkTrack> links;
    bool open = false;  // links are not settled
  };

  Api read_api() const;
  void take_new(const Api&);
  template <class Record>
  void append(std::deque<Tracked<Record>>& items, uint64_t from, uint64_t to, uint64_t unseen);
  void refresh();
  template <class Record>
  void refresh_items(std::deque<Tracked<Record>>& items, uint64_t* settled);
  template <class Record>
  void refresh_one(Tracked<Record>& item);
  template <class Record>
  bool has_rows(const Record& record) const;
  template <class Record>
  uint8_t ended_without_rows(const Record& record) const;
  void conclude(Operation&, uint8_t flags);
  void conclude(Call&, uint8_t flags);
  template <class Record>
  void remember_capture(const Record&);
  void look_for_captures();
  void forget_captures();
  void retire_passed_by();
  template <class Record>
  void retire_passed_by(std::deque<Tracked<Record>>& items);
  void ended_in_turn(uint64_t enter_ns, uint64_t launch_ns);
  void pop_done();

  // run_follower.h calls these
  void run_begun(uint32_t channel, const abi::RoundBegin&);
  void run_ended(uint32_t channel, uint32_t run, const abi::RoundEnd*, const abi::RoundCounts*);
  void runs_lost(uint32_t channel, uint32_t count);
  Cargo cargo_of(uint32_t token) const;
  Kernel* kernel_for(uint32_t channel, uint32_t token);
  void read_replay(Kernel&);
  void follow_runs(bool thorough);
  void untangle_replays();
  void finish_kernels();
  void finish(Kernel&);
  void finish_replay(Kernel&, const FinishedRound& measured);

  void observe(Kernel&, bool slow_look);
  void observe_lanes(Kernel&, uint32_t index, uint32_t run, bool all);
  void observe_polls(uint32_t index);
  void observe_waits(const Kernel&, uint32_t index);
  LinkTrack& link_of(Kernel&, LaneTrack& track, uint32_t index, abi::Direction, uint32_t lane_number);
  void complete_link(Kernel&, uint32_t channel, abi::Direction, uint32_t steps);
  void sample_proxies();
  void update_links(std::vector<LinkTrack>& links, int64_t realtime_ns) const;
  std::vector<uint16_t>& proxies_at(uint32_t channel, abi::Direction direction) {
    return proxies_of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }
  const std::vector<uint16_t>& proxies_at(uint32_t channel, abi::Direction direction) const {
    return proxies_of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }
  void close_links();
  void add_round(uint64_t op_seq, const abi::OpRecord&, FinishedRound round, std::vector<LinkTrack> links);
  void add_call(const abi::P2pRecord&, const FinishedRound& kernel);
  bool lane_polls(const LaneTrack&) const;
  bool warps_poll(const ChannelTrack&, const abi::Lane&) const;
  void moved() { moved_in_sample_ = true; }
  void lost(uint64_t count, uint64_t* counter) {
    if (!forgive_) *counter += count;
  }
  wire::OpSignature signature(const abi::OpRecord&) const;

  uint32_t next_token() const;
  const Kernel* kernel_with(uint32_t token) const;
  OperationInFlight describe(const abi::OpRecord&, uint64_t op_seq, Instant now, const Kernel*) const;
  void report_operations(InFlightMessage&, Instant now) const;
  void report_channels(OperationInFlight&, Instant now, const Kernel*, uint32_t token) const;
  void report_calls(InFlightMessage&, Instant now) const;
  void report_lanes(InFlightMessage&, Instant now, const Kernel&) const;

  const abi::FrameView frame_;
  const uint64_t comm_uid_;
  const int rank_;
  TrackerOptions options_;
  uint64_t present_mask_ = 0;  // channels that have room in the frame

  Api api_;
  uint64_t completed_op_seq_ = 0;
  std::deque<Operation> operations_;  // entered and not completed, oldest first
  std::deque<Call> calls_;
  std::deque<uint64_t> captures_ahead_, p2p_captures_ahead_;  // recorded into a graph, their kernel is not known yet
  std::map<uint32_t, CapturedPlan> captured_;                 // by token
  std::deque<uint32_t> captured_order_;
  size_t captured_items_ = 0;
  uint64_t captured_mask_ = 0;
  uint64_t watched_mask_ = 0;                     // channels on which something may begin
  std::vector<std::unique_ptr<Kernel>> kernels_;  // begun, oldest first
  std::vector<std::unique_ptr<Kernel>> unused_kernels_;
  uint32_t newest_token_ = 0, newest_token_before_ = 0;        // of the kernels launched by the host that have begun
  uint64_t newest_begin_ns_ = 0, newest_begin_before_ns_ = 0;  // device time; "before": as of the sample before this
  std::vector<ChannelTrack> channels_;
  std::vector<ProxyTrack> proxies_;
  std::vector<std::vector<uint16_t>> proxies_of_;  // by channel and direction: indices of proxies_
  uint64_t proxy_ticks_ = 0, proxy_tick_ns_ = 0;
  uint64_t proxies_sampled_ns_ = 0, proxies_interval_ns_ = 0;  // the last time, and since the time before
  bool proxies_again_ = false;
  std::deque<PendingRound> pending_;
  std::deque<FinishedP2p> pending_p2p_;
  size_t open_links_ = 0;                           // pending rounds with open links
  uint64_t settled_op_seq_ = 0, settled_call_ = 0;  // up to there nothing more is to be read
  uint64_t slow_looked_ns_ = 0, retire_looked_ns_ = 0;
  Instant now_;                 // of the sample
  bool forgive_ = false;        // this sample's losses are nobody's
  bool records_fresh_ = false;  // read again in this sample
  bool runs_missing_ = false;   // in this sample runs were lost
  uint64_t lapped_rounds_ = 0, lapped_calls_ = 0, forgotten_captures_ = 0, dropped_rounds_ = 0, finished_rounds_ = 0,
           runs_seen_ = 0;
  bool moved_in_sample_ = false;
  uint64_t movement_ = 0, moved_ns_ = 0;
};

}  // namespace ccld::probe
