// Communicator initialization (`Initialization`): which ranks have reached which stage, which were never heard of,
// which initializations failed.
//
// Contract: an initialization is named by (job, comm_hash, rank_count), because there is no CommUid yet. A rank repeats
// its stage with every heartbeat until it is through: one whose process reports and no longer mentions it has finished.
// Bounded, in initializations and in ranks of all of them; where there is no room, who has most makes way for who has less,
// and what nobody repeats for everybody. Plain state, not thread-safe; pointers to processes must be valid (forget() before the process table
// forgets).
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/model/events.h"
#include "decision/model/processes.h"
#include "decision/model/status.h"
#include "decision/settings.h"

namespace ccld::decision {

struct InitKey {
  std::string job;
  uint64_t comm_hash = 0;
  int rank_count = 0;
  friend auto operator<=>(const InitKey&, const InitKey&) = default;
};

struct InitRank {
  const ProcessModel* process = nullptr;  // nullptr: never heard of
  abi::InitStage stage = abi::InitStage::none;
  Nanoseconds entered_ns = 0, stage_ns = 0, heard_ns = 0;
  int32_t result = 0;
  int cuda_device = -1;
  uint64_t number = 0;
};

struct Initialization {
  std::map<int32_t, InitRank> ranks;  // those heard of
  Nanoseconds entered_ns = 0;         // the first of them
  Nanoseconds heard_ns = 0;
  uint64_t incident = 0;      // 0: none
  Nanoseconds looked_ns = 0;  // when it was last looked at, since it has one
  std::string machine;        // of the first process that spoke of it
};

class InitBook {
 public:
  explicit InitBook(const Settings& settings) : settings_(settings) {}

  void heard(const CommInit&, const ProcessModel&, Nanoseconds now_ns);
  // The communicator exists on this rank.
  void up(const CommUp&, const ProcessModel&, Nanoseconds now_ns);
  // Drops what is over: made everywhere, or no longer mentioned. Returns their incidents.
  std::vector<uint64_t> tidy(const ProcessTable&, Nanoseconds now_ns);

  std::map<InitKey, Initialization>& all() { return initializations_; }
  const std::map<InitKey, Initialization>& all() const { return initializations_; }

  // For want of memory: that part of those without an incident, in the same order; and who was ready first.
  void let_go(double part);
  // So that their processes can be let go of.
  void forget_who_was_ready();
  void admit_new(bool admit) { admits_new_ = admit; }
  // Messages of initializations for which there was no room.
  uint64_t refused() const { return refused_; }
  // To which this points.
  absl::flat_hash_set<const ProcessModel*> processes() const;

 private:
  static constexpr size_t initializations_max = 1024;
  const Settings& settings_;
  std::map<InitKey, Initialization> initializations_;
  // Ranks that are through, of initializations that are not known yet: a rank may be ready before the first report of
  // another.
  struct Ready {
    Nanoseconds ns;
    const ProcessModel* process;
  };
  bool make_room(const std::string& machine, Nanoseconds now_ns);
  bool has_room_for_rank(const Initialization&) const;
  void tidy_ready(Nanoseconds now_ns);
  std::map<InitKey, absl::flat_hash_map<int32_t, Ready>> ready_;
  Nanoseconds ready_since_ns_ = INT64_MAX;  // none of them is older
  Nanoseconds ready_tidied_ns_ = 0;
  size_t ranks_ = 0, ready_ranks_ = 0;  // counted at each look, and what was added since
  std::vector<uint64_t> left_;          // incidents of those that made way
  bool admits_new_ = true;
  uint64_t refused_ = 0;
};

InitStatus init_status(const InitKey&, const Initialization&, Nanoseconds now_ns);

// It has come and is not through.
bool under_way(const InitRank&);
bool failed(const Initialization&);
// Ranks that nobody has heard of in this initialization; at most `most`.
std::vector<Rank> never_heard(const InitKey&, const Initialization&, size_t most);

}  // namespace ccld::decision
