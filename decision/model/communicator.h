// One communicator: its ranks, how far each has come, when anything last moved, and its rounds.
// (Paper, section 4.2.1: metrics are grouped by communicator.)
//
// Contract: applies decoded telemetry in any order, late or twice. What is known about a rank only advances, but for
// `completed`, which a snapshot takes back if it shows an earlier operation still in flight.
// Instants are those of the service's clock. Instants of snapshots are converted through the sender's ClockMap, so that
// network delay does not look like a stall. Not thread-safe.
#pragma once

#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "decision/model/events.h"
#include "decision/model/processes.h"
#include "decision/model/rank_budget.h"
#include "decision/model/rank_pages.h"
#include "decision/model/rank_parts.h"
#include "decision/model/replay_history.h"
#include "decision/model/round_history.h"
#include "decision/settings.h"

namespace ccld::decision {

constexpr uint32_t details_after_ms = 20;

// What every message and every look at all ranks needs comes first: there may be 100,000 of them.
struct RankModel {
  ProcessModel* process = nullptr;     // nullptr: never heard of
  // Best knowledge. Completed: all up to here. A later operation may end first, as the larger of a group does, or what
  // needs no kernel. So what the newest snapshot shows in flight is in flight until it is reported as ended.
  OpSeq entered, launched, completed;
  Nanoseconds sampled_ns = 0;          // instant of `last`
  Nanoseconds moved_ns = 0;            // last movement of this communicator on this rank
  Nanoseconds aborted_ns = 0;          // when it was heard to have been aborted, if it was
  OpSeq last_round;                    // newest finished round reported
  OpSeq unseen;                        // newest operation that was handed over and of which nothing tells that it ended
  OpSeq shows_in_flight;               // of `last`: the oldest operation that nothing has ended since; 0: none
  uint64_t last_round_end_ns = 0;      // device clock
  uint64_t rounds_sent_ns = 0;         // by the sender's monotonic clock: the newest batch that brought rounds
  Rank rank;
  int cuda_device = -1;
  bool up = false, down = false;
  bool has_last = false;
  bool not_watched = false;    // its probe was stopped by an operator: what it does not say means nothing
  bool only_captured = false;  // what is not completed was only recorded into graphs
  bool shows_replay = false, shows_p2p = false;  // of `last`: a begun replay, a launched Send or Recv
  abi::CommState state = abi::CommState::none;

  // The newest snapshot. Lanes, proxies and channels only if it is late or nothing had moved on the rank for
  // details_after_ms: where steps move, they say nothing, and they are most of a rank's memory.
  // Lanes are in the order of channels.
  InFlight last;
  uint64_t waiting_channels = 0;  // of `last`: bit of each channel on which a lane waits

  Name host;
  int node = -1, local_rank = -1;
  uint32_t hidden = 0;  // abi::Hidden
  uint8_t names_brought = 0;  // by this rank, into the communicator's pool
  Name gpu_bus_id;
  ChannelList channels;
  ConnectionList connections;
  Nanoseconds up_ns = 0;  // when CommUp was heard

  // What most ranks have none of is apart; nullptr: nothing.

  // What siblings read in the frame of its process once that could not speak any more.
  struct InFrame {
    OpSeq entered, launched, begun;
  };
  std::unique_ptr<InFrame> in_frame;

  // As last_round, of graphs.
  struct LastReplay {
    RoundKey key;
    uint64_t end_ns = 0;  // device clock
  };
  std::unique_ptr<LastReplay> last_replay;

  // Send and Recv calls that ended.
  struct P2pEnded {
    uint64_t count = 0;
    // The newest pair_seq that ended, by peer and direction.
    absl::flat_hash_map<std::pair<int32_t, abi::Direction>, uint64_t> calls;
    // And of those that were recorded into graphs: their newest replay that ended, by peer, direction and pair_seq.
    absl::flat_hash_map<std::tuple<int32_t, abi::Direction, uint64_t>, uint32_t> replays;
  };
  std::unique_ptr<P2pEnded> p2p_ended;
  bool has_ended(Rank peer, abi::Direction, uint64_t pair_seq, uint32_t replay) const;

  // By its own reports: inside an operation that it called.
  bool in_flight() const { return entered > completed && !down && !not_watched && !only_captured; }
  // Of `last`.
  absl::Span<const LaneState> lanes_of(int channel) const;

  // Inside a replay of a graph, as its GPU says.
  bool in_replay() const { return shows_replay && !down && !not_watched; }
  // Inside a Send or Recv whose kernel was handed to CUDA.
  bool in_p2p() const { return shows_p2p && !down && !not_watched; }
  bool waiting() const { return in_flight() || in_replay() || in_p2p(); }
  // The oldest called operation that is not completed and was not only recorded; only if in_flight().
  OpSeq oldest_in_flight() const;
  bool left() const { return down; }
  // Its CUDA device; -1: not known. A communicator that has not been announced, as after a start of the service in the
  // middle of a job, is on the GPU of its process, if that has only one.
  int gpu() const { return cuda_device < 0 && process && process->gpu >= 0 ? process->gpu : cuda_device; }

  void prefetch() const {
    constexpr size_t lines = 3;
    for (size_t i = 0; i < lines; ++i) __builtin_prefetch(reinterpret_cast<const char*>(this) + 64 * i);
  }
  void prefetch_parts() const {
    __builtin_prefetch(process);
    __builtin_prefetch(last.operations.data());
  }
};

class Communicator {
 public:
  // Without a budget: as many ranks as messages claim.
  Communicator(CommUid uid, const Settings& settings, RankBudget* budget = nullptr)
      : uid_(uid), settings_(settings), budget_(budget), history_(settings), replays_(settings) {}
  ~Communicator() {
    if (budget_) budget_->give_back(room_taken_);
  }
  Communicator(const Communicator&) = delete;

  // It has fewer ranks than have spoken: somebody is wrong, and nothing of what is known can be believed. The caller
  // begins anew.
  bool contradicted_by(const CommUp&) const;

  // From now on the process speaks for this rank; written down in the process, too. False: another one does, or there is
  // no room. Once it has joined, its reports change nothing but the communicator.
  bool join(Rank r, ProcessModel& p, Nanoseconds now_ns) { return member(r, p, now_ns) != nullptr; }

  void up(const CommUp&, ProcessModel&, Nanoseconds now_ns);
  // Ranks that do what is not measured: how many of each abi::hidden_all.
  using HiddenRanks = std::array<uint32_t, std::size(abi::hidden_all)>;
  const HiddenRanks& hidden_ranks() const { return hidden_ranks_; }
  void down(const CommDown&, ProcessModel&, Nanoseconds now_ns);
  void rounds(const Rounds&, ProcessModel&, Nanoseconds now_ns);
  void p2p_rounds(const P2pRounds&, ProcessModel&, Nanoseconds now_ns);
  void in_flight(const InFlight&, ProcessModel&, Nanoseconds now_ns);
  // Later than what is known of this rank.
  bool is_news(const InFlight&, const ProcessModel&) const;
  // Read by a sibling of `process`, which is not heard of by this, and has not moved.
  void last_operations(const LastOperations&, const ProcessModel& process);

  CommUid uid() const { return uid_; }
  uint64_t room_taken() const { return room_taken_; }  // of the budget
  size_t names() const { return names_.size(); }       // distinct, of all ranks
  CommUid parent() const { return parent_; }
  uint64_t comm_hash() const { return comm_hash_; }
  const std::string& job() const { return job_; }
  const std::string& name() const { return name_; }
  int rank_count() const { return rank_count_ > 0 ? rank_count_ : static_cast<int>(ranks_.size()); }
  bool rank_count_known() const { return rank_count_ > 0; }
  // By rank. A loop visits those of whom, or of whose neighbours, something was heard: all of a communicator of up
  // to 64.
  const RankTable<RankModel>& ranks() const { return ranks_; }
  // As a loop over ranks(), for looks at all of them: what they point to is anywhere in memory and is fetched ahead.
  template <class Visit>
  void visit_ranks(Visit visit) const {
    constexpr size_t ahead = 8;
    ranks_.visit_pages([&](const RankModel* page, size_t n) {
      for (size_t i = 0; i < n; ++i) {
        if (i + 2 * ahead < n) page[i + 2 * ahead].prefetch();
        if (i + ahead < n) page[i + ahead].prefetch_parts();
        visit(page[i]);
      }
    });
  }
  // A message is about to be applied; then, one of this rank.
  void prefetch() const {
    __builtin_prefetch(&ranks_);
    __builtin_prefetch(&ranks_in_flight_);
    __builtin_prefetch(&history_);
    __builtin_prefetch(reinterpret_cast<const char*>(&history_) + 64);
    __builtin_prefetch(reinterpret_cast<const char*>(&history_) + 128);
  }
  void prefetch(Rank r) const {
    if (rank(r)) rank(r)->prefetch();
  }
  // It has this rank, or may have it as long as nobody has said how many there are, and no process speaks for it.
  bool lacks(Rank r) const {
    return r.value >= 0 && (rank_count_ == 0 || r.value < rank_count_) && !(rank(r) && rank(r)->process);
  }
  // nullptr: there is no such rank, or it was never heard of.
  const RankModel* rank(Rank r) const { return r.value >= 0 ? ranks_.find(static_cast<size_t>(r.value)) : nullptr; }
  RoundHistory& history() { return history_; }
  const RoundHistory& history() const { return history_; }
  ReplayHistory& replays() { return replays_; }
  const ReplayHistory& replays() const { return replays_; }

  int ranks_in_flight() const { return ranks_in_flight_; }
  int ranks_in_replay() const { return ranks_in_replay_; }
  int ranks_in_p2p() const { return ranks_in_p2p_; }
  int ranks_down() const { return ranks_down_; }
  uint64_t p2p_rounds() const { return p2p_rounds_; }  // of all ranks
  OpSeq entered_max() const { return entered_max_; }
  // All ranks have at least begun every operation up to here: some rank finished it, and it needs everybody's data.
  OpSeq begun_by_all() const { return begun_by_all_; }
  // When anything last moved, as snapshots and rounds say. An announcement is no movement: it is repeated whatever happens.
  Nanoseconds moved_ns() const { return moved_ns_; }
  Nanoseconds heard_ns() const { return heard_ns_; }
  Nanoseconds first_heard_ns() const { return first_heard_ns_; }  // of any rank; 0: of none
  OpSeq completed_min() const;  // of the ranks that are there; once all have left, of all

  bool is_barrier(const Signature&) const;
  // Best known signature of an operation, from the rounds or from any rank's snapshot.
  Signature signature(OpSeq) const;

  // Telemetry has arrived since this was last called.
  bool take_dirty() {
    const bool d = dirty_;
    dirty_ = false;
    return d;
  }

 private:
  RankModel* member(Rank, ProcessModel&, Nanoseconds now_ns);
  bool take_room(uint64_t ranks);
  struct Busy {
    bool operation, replay, p2p;
  };
  static Busy busy(const RankModel& r) { return {r.in_flight(), r.in_replay(), r.in_p2p()}; }
  void moved(RankModel&, Nanoseconds at_ns);
  static Nanoseconds shown_in_flight_ns(const RankModel&, Nanoseconds now_ns);
  static void reach(RankModel&, abi::CommState, Nanoseconds at_ns);
  static bool ends_shown(RankModel&, OpSeq);
  static void complete(RankModel&, OpSeq newest);
  void finished(OpSeq, const Signature&);
  void recount(RankModel&, Busy was);
  void replayed(RankModel&, const Round&, const RoundCell&, Nanoseconds now_ns);

  CommUid uid_;
  const Settings& settings_;
  RankBudget* const budget_;
  uint64_t room_taken_ = 0;
  std::string job_, name_;
  CommUid parent_;
  uint64_t comm_hash_ = 0;
  int rank_count_ = 0;
  NamePool names_;
  RankTable<RankModel> ranks_;
  HiddenRanks hidden_ranks_{};
  RoundHistory history_;
  ReplayHistory replays_;
  int ranks_in_flight_ = 0, ranks_in_replay_ = 0, ranks_in_p2p_ = 0, ranks_down_ = 0;
  uint64_t p2p_rounds_ = 0;
  OpSeq entered_max_, begun_by_all_;
  Nanoseconds moved_ns_ = 0, heard_ns_ = 0, first_heard_ns_ = 0;
  bool dirty_ = false;
};

// In the process, in which order its GPU ran these kernels. Reports of its member (Communicator::join).
void log_kernels(const Communicator&, const Rounds&, ProcessModel&);
void log_kernels(const Communicator&, const P2pRounds&, ProcessModel&);

// By their node numbers, or by their hosts where these are not known.
bool same_node(const Communicator&, Rank, Rank);

// The peer of an endpoint is a switch of the node's NVLinks (NVLS), by which it talks to all GPUs of its node at once.
// NCCL numbers these behind the ranks and the network of CollNet.
bool is_nvlink_switch(const Communicator&, int32_t peer);

// The peer of an endpoint is the collective network (CollNet), by which it talks to the heads of all nodes at once.
bool is_collective_network(const Communicator&, int32_t peer);

}  // namespace ccld::decision
