#include "decision/validate/thresholds.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::validate {

const std::vector<ThresholdRow>& thresholds() {
  static const std::vector<ThresholdRow> rows = {
      {"gemm_margin", &Thresholds::gemm_margin, 0.01, 100, "a GPU may take so much longer than its peers for a GEMM",
       "GPUs of one model differ by a few percent in clock; Greyhound calls 10 % over the median degraded"},
      {"memory_margin", &Thresholds::memory_margin, 0.01, 100, "likewise, to copy within its memory",
       "memory clocks of one model do not differ; 10 % is room for row remapping and refresh at high temperature"},
      {"copy_margin", &Thresholds::copy_margin, 0.01, 100, "likewise, between host and GPU",
       "copies from another socket are up to a quarter slower; a link that lost half of its lanes takes twice as long"},
      {"link_margin", &Thresholds::link_margin, 0.01, 100, "a link may take so much longer than links of its kind",
       "paths of one fabric differ in hops and in who else uses them; a port at half its speed takes twice as long"},
      {"past_margin", &Thresholds::past_margin, 0.01, 100, "hardware may take so much longer than in its own past",
       "the same hardware repeats itself better than peers agree, but room temperature and drivers change"},
      {"pair_factor", &Thresholds::pair_factor, 1, 100, "margins grow by this where there is only one peer",
       "of two that differ the slower one is at fault only if they differ by more than hardware of one kind does"},
      {"noise_factor", &Thresholds::noise_factor, 0, 100, "margins grow by this many times the spread of repetitions",
       "a busy machine makes some repetitions slow, a slow part makes all of them slow"},
      {"resolution_max", &Thresholds::resolution_max, 1.1, 1000,
       "nothing is called healthy where only what takes more than so many times as long would be noticed",
       "slow GPUs and ports mostly run at a half or less; what does not find a quarter of the speed is no test"},
  };
  return rows;
}

void raise_for_cpu_device(Thresholds& t) {
  // A block of the CPU device that polls sleeps, longer as the wait goes on, so the same link takes 1.8 ms or 3.6 ms;
  // and the processors of its host are nobody's alone. What the accuracy benchmark plants takes eight times as long or
  // more.
  constexpr double margin = 1.5, resolution = 8;
  for (double* m : {&t.gemm_margin, &t.memory_margin, &t.copy_margin, &t.link_margin, &t.past_margin})
    *m = std::max(*m, margin);
  t.resolution_max = std::max(t.resolution_max, resolution);
  t.pair_factor = 1;  // these margins are wide enough for a pair
}

absl::Status set_threshold(Thresholds& t, const std::string& text) {
  const size_t equals = text.find('=');
  const absl::string_view name = absl::string_view(text).substr(0, equals);
  for (const ThresholdRow& row : thresholds()) {
    if (name != row.name) continue;
    double value = 0;
    if (equals == std::string::npos || !absl::SimpleAtod(absl::string_view(text).substr(equals + 1), &value) ||
        !std::isfinite(value) || value < row.least || value > row.most)
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "': ", row.name, " must be a number from ", row.least, " to ", row.most));
    t.*row.field = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "': there is no threshold of this name"));
}

}  // namespace ccld::decision::validate
