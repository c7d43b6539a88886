// What the GPUs of one job did for some seconds: the kernels of all communicators, in order, as their probes reported
// them. (Beyond the paper: one timeline of the job, in which ranks are compared with each other and not only with their
// past.)
//
// Contract: plain state, not thread-safe. Times of kernels are those of their own GPU's clock; clocks.h makes them
// comparable. Bounded by `whatif_gpus_max` GPUs, `whatif_kernels_max` kernels and link_rows_max stages of links (of
// all collectives, and of all Sends and Recvs); what comes beyond is left out. What clear() keeps for the next window
// comes on top: Sends and Recvs, at most as many, and a kernel of each GPU. A communicator or process may be forgotten
// meanwhile: nothing here points to one.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/model/events.h"
#include "decision/settings.h"
#include "decision/timeline/at.h"

namespace ccld::decision::timeline {

// One end of a Send and its Recv.
struct Call {
  Rank peer;
  abi::Direction direction = abi::Direction::send;
  uint64_t pair_seq = 0, bytes = 0;
};

struct Kernel {
  uint64_t begin_ns = 0, end_ns = 0;  // device clock
  uint64_t launch_monotonic_ns = 0;   // of the sender's machine; 0: not known
  CommUid comm;
  Rank rank;
  uint32_t replay = 0;                      // beside rank: there are many of these, and no room is to be left between
  OpSeq op;                                 // 0: Send and Recv
  Signature signature;                      // of a collective
  int32_t ranks = 0;                        // of its communicator; 0: not known
  uint32_t first_call = 0, call_count = 0;  // of Gpu::calls
  bool earlier = false;                     // of the window before: a Send or Recv whose other end comes in this one
};

// A GPU is the same one in all communicators of a process. The process is only compared, never looked into.
using GpuKey = std::pair<const void*, int>;

struct Gpu {
  GpuKey key;
  std::vector<Kernel> kernels;
  std::vector<Call> calls;
  size_t earlier = 0;  // of its kernels: the first ones, of the window before
  // The kernel of the window before that ended last, `earlier` as well; its calls are among `calls`. None: it is not
  // known which one it was.
  std::optional<Kernel> before;
  bool full = false;  // a kernel found no room in this window
  // Begin (device clock) minus launch (its machine's clock), at least: a kernel that nothing held up begins at once. It
  // is remembered beyond clear(), with what clocks may have drifted apart since.
  int64_t launch_least_ns = INT64_MAX;
};

// What was found out about the clocks of two GPUs: that of `b` plus `ns` is that of `a`.
struct ClockPair {
  GpuKey a, b;
  uint64_t ns = 0;             // modulo 2^64
  double doubt_ns = 0;         // how long the operations took that told it
  double hosts_differ_ns = 0;  // by how much hosts' clocks may be wrong about it, if they told it
};

// A Send or Recv that is reported, while its other end may still be under way.
struct OpenEnd {
  int gpu = 0, kernel = 0;
  Call call;
};

class Timeline {
 public:
  // `gpus_in_all`: of all timelines together, which whatif_gpus_max bounds.
  Timeline(const Settings& settings, size_t& gpus_in_all) : settings_(settings), gpus_in_all_(gpus_in_all) {}
  Timeline(Timeline&& other) noexcept = default;
  ~Timeline() { gpus_in_all_ -= gpus_.size(); }

  // `ranks`: of the communicator; 0: not known.
  void add(GpuKey, const Rounds&, int ranks = 0);
  void add(GpuKey, const P2pRounds&);

  // In the order in which they were first heard of.
  const std::vector<Gpu>& gpus() const { return gpus_; }
  const std::vector<std::pair<Rank, LinkStages>>* links(CommUid, OpSeq) const;  // nullptr: none
  // Of earlier windows: those that were found out while operations were short.
  const std::vector<ClockPair>& clock_pairs() const { return clock_pairs_; }
  void remember(std::vector<ClockPair> pairs) { clock_pairs_ = std::move(pairs); }
  int find(GpuKey key) const {  // -1: it is not in this window
    const auto it = index_.find(key);
    return it == index_.end() ? -1 : static_cast<int>(it->second);
  }
  // Of a Send and its Recv, as far as they went over the network.
  const std::vector<std::pair<Rank, LinkStages>>* links(CommUid, Rank sender, Rank receiver, uint64_t pair_seq) const;
  size_t left_out() const { return left_out_; }  // reports of GPUs beyond the bound
  // From now on only of these; empty: of all. Between clear() and the next report.
  void look_at(absl::flat_hash_set<GpuKey> only);
  bool looks_at_all() const { return only_.empty(); }
  // Only others report: these have ended, while the job goes on.
  bool looks_at_ended() const { return kernels_ == 0 && others_report_; }
  size_t kernels_of_most() const;                                    // of the median GPU: how much there is to judge
  size_t kernels_of_gpu_max() const { return kernels_of_gpu_max_; }  // more of one GPU are left out
  // Begins anew; GPUs of which nothing was heard since the last time are forgotten. `open_ends` stay for one window.
  void clear(Nanoseconds age_ns, const std::vector<OpenEnd>& open_ends = {});

 private:
  static constexpr size_t kernels_of_gpu_most = 512;
  using LinkRows = std::vector<std::pair<Rank, LinkStages>>;
  using CallKey = std::tuple<CommUid, Rank, Rank, uint64_t>;  // sender, receiver, number
  static CallKey key_of(const Kernel&, const Call&);
  Gpu* gpu(GpuKey);
  void keep(std::vector<Gpu>);  // instead of all GPUs
  void leave_out_links();
  bool take_room(Gpu&);

  const Settings& settings_;
  size_t& gpus_in_all_;
  std::vector<Gpu> gpus_;
  absl::flat_hash_map<GpuKey, size_t> index_;
  absl::flat_hash_map<std::pair<CommUid, OpSeq>, LinkRows> links_;
  size_t link_rows_ = 0;
  int link_priority_min_ = 0;  // of the operations in links_ (link_steps.h)
  std::vector<ClockPair> clock_pairs_;
  absl::flat_hash_map<CallKey, LinkRows> links_of_calls_;
  size_t rows_of_calls_ = 0;
  size_t kernels_ = 0;
  size_t kernels_of_gpu_max_ = kernels_of_gpu_most;  // in this window
  size_t left_out_ = 0;
  bool others_report_ = false;  // in this window, beside those that are looked at
  absl::flat_hash_set<GpuKey> only_;
};

}  // namespace ccld::decision::timeline
