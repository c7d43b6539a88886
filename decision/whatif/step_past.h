// What the steps of a job's connections waited for in its earlier windows, for each kind of collective: at most, so
// that ranks that come less late than usual make no connection slow. (Paper, section 4.2.1: T_base.)
//
// Contract: plain state, not thread-safe. Bounded by connections_max; what was not seen for past_windows_max windows is
// forgotten.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/measure/passage.h"
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

  // nullopt: fewer than whatif_past_means_min means are known.
  std::optional<UsualStep> usual(const Key&) const;
  // Those of a window, in the order of time.
  void learn(const Key&, const std::vector<Passage>&);
  // After all communicators of a window.
  void end_window();

 private:
  static constexpr size_t connections_max = 1 << 14;  // of 1 KB each
  struct Seen {
    Means ns[passage_parts], given_after_ns;
    uint64_t last = 0;  // window
  };

  const Settings& settings_;
  uint64_t windows_ = 0;
  absl::flat_hash_map<Key, Seen> seen_;
};

}  // namespace ccld::decision::whatif
