// Kernels of one communicator, from the runs on its channels: which have begun, what they do while they run, and what
// is said of them when they have ended.
//
// Contract
//   Kernels run one after the other, in the order of their tokens where they are launched by the host. The operations
//   and calls that a kernel carries end with it.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstdint>
#include <vector>

#include "probe/agent/channel_endpoints.h"
#include "probe/agent/operation_records.h"
#include "probe/agent/proxy_watch.h"
#include "probe/agent/run_follower.h"

namespace ccld::probe {

class KernelFollower {
 public:
  struct Channel {
    RunFollower runs;
    uint64_t begun = 0;        // runs
    Kernel* kernel = nullptr;  // of the open run; null: of nothing that is known
    uint64_t begun_seen_ns = 0;
    uint64_t begin_device_ns = 0;
    ChannelEndpoints endpoints;  // of the open run
    SummedRuns summed;           // what is said of its kernels nowhere else
  };

  // All must outlive it.
  KernelFollower(const abi::FrameView& frame, OperationRecords& records, FinishedRounds& finished,
                 const ProxyWatch& proxies, uint64_t poll_fresh_ns);

  // In a sample, in this order. Begins and ends of runs; `thorough`: also ends that may never come.
  void follow_runs(bool thorough, Sampling&);
  // Looks into kernels that run; `slow_look`: also at what costs much.
  void observe(bool slow_look, Sampling&);
  void finish_ended(Sampling&);

  const Kernels& running() const { return kernels_; }  // begun, oldest first
  const Channel& channel(uint32_t index) const { return channels_[index]; }
  // Of the kernels launched by the host that had begun before this sample: the newest token; 0: none.
  uint32_t newest_token_before() const { return newest_token_before_; }
  uint64_t runs_seen() const { return runs_seen_; }  // of the channel with the most
  // Kernels of which nothing is reported but this, so far: the most runs, and the longest time, of any channel; steps
  // of all.
  SummedRuns summed() const;

 private:
  struct Sink;  // of run_follower.h

  void run_begun(uint32_t channel, const abi::RoundBegin&, Sampling&);
  void run_ended(uint32_t channel, uint32_t run, const abi::RoundEnd*, const abi::RoundCounts*, Sampling&);
  Kernel* kernel_for(uint32_t channel, const abi::RoundBegin&, Sampling&);
  Kernel& new_kernel();
  void read_replay(Kernel&) const;
  void give_up_replays(uint64_t device_ns);
  bool is_given_up(bool captured, const abi::RoundBegin& begin) const {
    return captured && begin.device_ns < replays_known_from_ns_;
  }
  bool awaits_replay(Kernel&) const;
  void observe(Kernel&, bool slow_look, Sampling&);
  void finish(Kernel&, Sampling&);

  const abi::FrameView& frame_;
  OperationRecords& records_;
  FinishedRounds& finished_;
  const ProxyWatch& proxies_;
  const uint64_t poll_fresh_ns_;
  Kernels kernels_;
  Kernels unused_;
  std::vector<Channel> channels_;
  uint32_t newest_token_ = 0, newest_token_before_ = 0;        // of the kernels launched by the host that have begun
  uint64_t newest_begin_ns_ = 0, newest_begin_before_ns_ = 0;  // device time; "before": as of the sample before this
  uint64_t replays_known_from_ns_ = 0;                         // device time; see give_up_replays
  uint64_t runs_seen_ = 0;
};

}  // namespace ccld::probe
