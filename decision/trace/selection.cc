#include "decision/trace/selection.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ccld::decision::trace {
namespace {

std::vector<int> sorted(std::vector<int> indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

bool is_rank(absl::string_view text, int32_t& rank) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos && absl::SimpleAtoi(text, &rank);
}

// Those that matter most first, each once.
class Chosen {
 public:
  explicit Chosen(const Directory& directory) : directory_(directory) {}
  void add(CommUid comm, Rank rank) {
    const int gpu = directory_.gpu(comm, rank);
    if (gpu == nobody || full() || std::find(gpus_.begin(), gpus_.end(), gpu) != gpus_.end()) return;
    gpus_.push_back(gpu);
  }
  void add_neighbours(CommUid comm, Rank rank) {
    const int gpu = directory_.gpu(comm, rank);
    if (gpu == nobody) return;
    for (const auto& m : directory_.gpus()[static_cast<size_t>(gpu)].memberships)
      if (m.comm == comm)
        for (const int32_t next : m.neighbours) add(comm, Rank{next});
  }
  bool full() const { return gpus_.size() >= default_ranks_max; }
  const std::vector<int>& gpus() const { return gpus_; }

 private:
  const Directory& directory_;
  std::vector<int> gpus_;
};

}  // namespace

absl::StatusOr<std::vector<RankRange>> parse_ranks(absl::string_view text) {
  std::vector<RankRange> out;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    RankRange range;
    const bool single = part.find('-') == absl::string_view::npos;
    if (!is_rank(ends.first, range.first) || !is_rank(single ? ends.first : ends.second, range.second))
      return absl::InvalidArgumentError(absl::StrCat("--ranks: '", part, "' is not a rank or a range of ranks; expected is something like 0-7,12"));
    if (range.first > range.second) return absl::InvalidArgumentError(absl::StrCat("--ranks: the range '", part, "' ends before it begins"));
    out.push_back(range);
  }
  return out;
}

absl::StatusOr<std::vector<int>> ranks_asked(const Directory& directory, const std::vector<RankRange>& asked) {
  std::vector<int> out;
  const int32_t last = directory.gpus().empty() ? -1 : directory.gpus().back().number;
  for (const auto& [first, end] : asked)
    for (int32_t rank = first; rank <= end; ++rank) {
      const int gpu = directory.numbered(rank);
      if (gpu == nobody) return absl::InvalidArgumentError(absl::StrCat("--ranks: the recording has no rank ", rank, "; its last one is ", last));
      if (std::find(out.begin(), out.end(), gpu) != out.end()) continue;
      if (out.size() >= ranks_max) return absl::InvalidArgumentError(absl::StrCat("--ranks: at most ", ranks_max, " ranks are shown"));
      out.push_back(gpu);
    }
  return sorted(std::move(out));
}

std::vector<int> ranks_by_default(const Directory& directory, const std::vector<Incident>& incidents) {
  std::vector<int> first(std::min(directory.gpus().size(), default_ranks_max));
  std::iota(first.begin(), first.end(), 0);
  if (directory.gpus().size() <= default_ranks_max) return first;
  Chosen chosen(directory);
  for (const Incident& i : incidents) {
    for (const Culprit& c : i.culprits) {
      chosen.add(i.comm, c.rank);
      if (c.peer) chosen.add(i.comm, *c.peer);
    }
    for (const CycleStep& step : i.cycle) chosen.add(step.comm, step.rank), chosen.add(step.comm, step.waits_for);
    for (const Rank r : i.candidates) chosen.add(i.comm, r);
  }
  for (const Incident& i : incidents) {
    for (const Culprit& c : i.culprits) chosen.add_neighbours(i.comm, c.rank);
    for (const Rank r : i.victim_sample) chosen.add(i.comm, r);
  }
  return chosen.gpus().empty() ? first : sorted(chosen.gpus());
}

}  // namespace ccld::decision::trace
