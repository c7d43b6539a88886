#include "decision/import/thresholds.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::dumps {
namespace {

constexpr ThresholdRow rows[] = {
    {"stall_shown_s", &Thresholds::stall_shown_s, 0.1, 86400, "a call that the dumps show to stand for so long hangs",
     "calls of a healthy job end within milliseconds, those of a slow one within seconds"},
    {"stands_s_min", &Thresholds::stands_s_min, 1, 86400,
     "a communicator that did not move between moments of RAS so far apart stands still",
     "a healthy one that somebody waits on moves"},
    {"rounds_min", &Thresholds::rounds_min, 4, 1e6, "calls that all ranks logged, at least, to say who is late",
     "fewer may be like this by chance"},
    {"waited_part_min", &Thresholds::waited_part_min, 0.01, 1,
     "part of the time of collectives that is waiting for the last rank", "below it is what healthy jobs show"},
    {"last_part_min", &Thresholds::last_part_min, 0.01, 1, "part of the calls to which a late rank comes last",
     "by chance it would be one part in the number of ranks"},
    {"slower_min", &Thresholds::slower_min, 1.01, 1000,
     "how much longer the last quarter of the calls takes than the first", "less is what healthy jobs show"},
    {"transfer_us_min", &Thresholds::transfer_us_min, 1, 1e9, "shorter calls are not said to become slower",
     "a collective of microseconds takes what it takes to start its kernel"},
};

std::string names() {
  return absl::StrJoin(rows, ", ", [](std::string* out, const ThresholdRow& r) { absl::StrAppend(out, r.name); });
}

}  // namespace

std::span<const ThresholdRow> thresholds() { return rows; }

absl::Status set_threshold(Thresholds& thresholds, absl::string_view name_equals_value) {
  const size_t equals = name_equals_value.find('=');
  const absl::string_view name = name_equals_value.substr(0, equals);
  const auto row =
      std::find_if(std::begin(rows), std::end(rows), [name](const ThresholdRow& r) { return r.name == name; });
  if (equals == absl::string_view::npos || row == std::end(rows))
    return absl::InvalidArgumentError(
        absl::StrCat("'", name_equals_value, "' is not NAME=VALUE with a name of: ", names()));
  double value = 0;
  const absl::string_view text = name_equals_value.substr(equals + 1);
  if (!absl::SimpleAtod(text, &value) || !(value >= row->least && value <= row->most))
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", text, ": a number from ", row->least, " to ", row->most, " is expected"));
  thresholds.*(row->field) = value;
  return absl::OkStatus();
}

}  // namespace ccld::decision::dumps
