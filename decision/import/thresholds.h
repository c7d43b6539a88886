// From where on dumps are taken for trouble: `ccld import --set NAME=VALUE`. Chosen, not measured: there is no set of
// dumps with known faults.
//
// Contract: set_threshold() changes exactly that field or leaves everything as it was; its error names the field and
// what it may be. Threads: any.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/model/types.h"

namespace ccld::decision::dumps {

struct Thresholds {
  // Flight Recorder
  double stall_shown_s = 10;
  // RAS
  double stands_s_min = 5;
  // Inspector
  double rounds_min = 20;
  double waited_part_min = 0.2;
  double last_part_min = 0.7;
  double slower_min = 1.5;
  double transfer_us_min = 100;

  Nanoseconds stall_shown_ns() const { return static_cast<Nanoseconds>(stall_shown_s * ns_per_s); }
};

struct ThresholdRow {
  absl::string_view name;
  double Thresholds::*field;
  double least, most;
  absl::string_view help;    // what it is
  absl::string_view reason;  // why this default
};

// In the order of the documentation.
std::span<const ThresholdRow> thresholds();

// "slower_min=2"
absl::Status set_threshold(Thresholds&, absl::string_view name_equals_value);

}  // namespace ccld::decision::dumps
