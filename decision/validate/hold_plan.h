// How the ranks of a running job come to hold before the same collective: they are asked where they are and how fast
// they go, and told a collective a little ahead of the foremost; if one of them has passed it by then, one further
// ahead.
//
// Contract
//   Ok: all ranks hold, and nothing of NCCL runs on their GPUs. Otherwise one line says why not, and whoever holds goes
//   on by itself. It ends when it has tried ahead_s_max.
// Threads: one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/validate/group.h"

namespace ccld::decision::validate {

// How far ahead the collective is, as the time until the foremost rank calls it: a message on its way and a busy
// processor take less than the first try allows for. Each further try is further ahead, up to the time that a rank
// holds by default: few tries, because whoever holds meanwhile uses up its time.
constexpr double ahead_s_least = 0.2, ahead_s_max = 5, ahead_factor = 3;

// `within_s`: how long a rank may take to call the collective.
absl::Status hold_all(Group&, double within_s);
// NCCL's unique id, made in the process of rank 0. Errors: Unavailable.
absl::StatusOr<std::string> id_of_rank_0(Group&);

}  // namespace ccld::decision::validate
