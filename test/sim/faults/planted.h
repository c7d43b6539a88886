// What was planted: only the judge may look at it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "test/sim/instant.h"

namespace ccld::sim {

enum class FaultKind {
  none,
  // H1
  never_calls,
  stopped,
  killed,
  called_not_launched,
  kernel_never_starts,
  silent_process,
  host_down,
  // H2
  other_operation,
  other_count,
  other_type,
  other_reduction,
  other_root,
  skipped,
  additional,
  other_order,
  // H3
  frozen_channel,
  frozen_group,
  dead_gpu,
  stuck_proxy,
  cut_link,
  dead_nic,
  // S1
  late_host,
  slow_clock,
  pauses,
  // S2
  throttled_link,
  delaying_proxy,
  // S3
  late_and_throttled,
  slow_clock_and_delaying,
  // H2 of Send and Recv; here so that what a seed stands for stays as it was
  other_bytes,
  // S2, likewise
  seldom_proxy,
  count
};
const char* name(FaultKind);

constexpr bool is_h1(FaultKind k) { return k >= FaultKind::never_calls && k <= FaultKind::host_down; }
constexpr bool is_h2(FaultKind k) {
  return (k >= FaultKind::other_operation && k <= FaultKind::other_order) || k == FaultKind::other_bytes;
}
constexpr bool is_h3(FaultKind k) { return k >= FaultKind::frozen_channel && k <= FaultKind::dead_nic; }
constexpr bool is_hang(FaultKind k) { return is_h1(k) || is_h2(k) || is_h3(k); }
constexpr bool is_s1(FaultKind k) { return k >= FaultKind::late_host && k <= FaultKind::pauses; }
constexpr bool is_s2(FaultKind k) {
  return k == FaultKind::throttled_link || k == FaultKind::delaying_proxy || k == FaultKind::seldom_proxy;
}
constexpr bool is_s3(FaultKind k) {
  return k == FaultKind::late_and_throttled || k == FaultKind::slow_clock_and_delaying;
}
constexpr bool is_slow(FaultKind k) { return is_s1(k) || is_s2(k) || is_s3(k); }

struct Planted {
  FaultKind kind = FaultKind::none;
  std::vector<int> processes;      // culprits
  int sender = -1, receiver = -1;  // ends of a link
  // In a pipeline all (sender, receiver) that are slow: each of them is right, in this direction only.
  std::vector<std::pair<int, int>> links;
  bool from_start = false;   // slow before the first iteration
  bool in_pipeline = false;  // slow is what only Send and Recv use
  int comm = -1;             // in which it shows first, where that was chosen
  Instant at = never;        // of mismatches: not before
  std::string text;          // for people
};

}  // namespace ccld::sim
