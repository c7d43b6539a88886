// Which ranks a trace shows.
//
// Contract: pure. Ranks are the numbers of the directory. Errors: InvalidArgument, one line that names the flag.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/model/verdict.h"
#include "decision/trace/directory.h"

namespace ccld::decision::trace {

// Without --ranks: what fits on a screen.
constexpr size_t default_ranks_max = 16;
// With --ranks: the clocks of so many GPUs are compared with each other (whatif_gpus_max).
constexpr size_t ranks_max = 512;

using RankRange = std::pair<int32_t, int32_t>;  // first, last

// "0-7,12"
absl::StatusOr<std::vector<RankRange>> parse_ranks(absl::string_view text);

// Indices of the directory, rising. Each of `asked` must exist.
absl::StatusOr<std::vector<int>> ranks_asked(const Directory&, const std::vector<RankRange>& asked);
// All, if there are few. Else the culprits of the incidents, whom they wait for or whom they are compared with, and their
// neighbours in the rings; without incidents the first ones.
std::vector<int> ranks_by_default(const Directory&, const std::vector<Incident>&);

}  // namespace ccld::decision::trace
