// What a job's collectives took in its earlier windows, by kind: how long the operations took, and what the steps of
// each connection waited for. (Paper, section 4.2.1: T_base.) Waits are upper bounds, so that ranks that come less late
// than usual make no connection slow.
//
// Contract: plain state, not thread-safe. Bounded by connections_max and kinds_max; what was not seen for
// past_windows_max windows is forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/measure/passage.h"
#include "decision/whatif/operation_steps.h"
#include "decision/whatif/past.h"

namespace ccld::decision::whatif {

// Of a step.
struct UsualStep {
  double ns[passage_parts] = {};
  double given_after_ns = 0, deviation_ns = 0;  // on all parts but the last
  double taken_deviation_ns = 0;                // of the last
};

class StepPast {
 public:
  // The connections of two ranks in a kind of collective.
  using Key = std::tuple<CommUid, size_t, int32_t, int32_t>;

  explicit StepPast(const Settings& settings) : settings_(settings) {}

  // nullopt: fewer than whatif_peers_min means are known.
  std::optional<UsualStep> usual(const Key&) const;
  // From the last begin to the last end of such an operation; nullopt: likewise, or not learnt for past_windows_max
  // windows.
  struct UsualTransfer {
    double ns = 0, deviation_ns = 0;
  };
  std::optional<UsualTransfer> transfer(CommUid, size_t kind) const;
  // Those of a window, in the order of time.
  void learn(CommUid, size_t kind, const std::vector<OperationSteps>&);
  // The operations of a window and, of connections that report fewer than slow_rounds_min of them, the newest ones
  // before it: a job of long iterations has one or two in a window, and a probe does not look long enough at each.
  std::vector<OperationSteps> with_earlier(CommUid, size_t kind, const std::vector<OperationSteps>&);
  // After all communicators of a window.
  void end_window();

 private:
  static constexpr size_t connections_max = 1 << 14;  // of 1 KB each
  static constexpr size_t kinds_max = 1 << 12;
  struct Seen {
    Means ns[passage_parts], given_after_ns;
    uint64_t last = 0;  // window
  };

  struct SeenKind {
    Means transfer_ns;
    std::vector<OperationSteps> newest;  // of each connection fewer than slow_rounds_min
    uint64_t last = 0, learnt = 0;
  };
  // What was last learnt in that window is forgotten.
  bool is_over(uint64_t window) const { return window + past_windows_max <= windows_; }
  void learn(const Key&, const std::vector<Passage>&);
  SeenKind* kind_of(CommUid, size_t kind);

  const Settings& settings_;
  uint64_t windows_ = 0;
  size_t kept_passages_ = 0;  // of the newest operations of all kinds, no more than connections_max
  absl::flat_hash_map<Key, Seen> seen_;
  absl::flat_hash_map<std::pair<CommUid, size_t>, SeenKind> kinds_;
};

}  // namespace ccld::decision::whatif
