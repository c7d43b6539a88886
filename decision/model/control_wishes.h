// What an operator may ask of a running probe, as text and as numbers: schemas/abi/process.h has the meanings and
// ranges.
//
// Errors: one line that names the field and its range. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ccld::decision {

struct ControlWishes {
  uint32_t fields = 0;  // abi::ControlField: which of the following are meant
  bool running = true;
  uint32_t sample_us = 0;
  uint32_t log = 0;  // abi::LogVerbosity
  uint32_t budget_ppm = 0;
  std::string endpoint;
};

// running=0|1, sample_us=100..1000000, log=warnings|info|trace, budget_ppm=0..1000000,
// endpoint=tcp://...|ipc://...|several with commas|(empty). Sets the field or leaves everything as it was; a field may
// be given once.
absl::Status set_wish(ControlWishes&, absl::string_view name, absl::string_view value);
absl::Status set_wish(ControlWishes&, absl::string_view name_equals_value);

// Names of abi::ControlField bits; unknown bits are "field 64".
std::vector<std::string> control_field_names(uint32_t fields);

}  // namespace ccld::decision
