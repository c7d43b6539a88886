// From where on hardware is called slow: named settings with default, range, help and reason.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ccld::decision::validate {

struct Thresholds {
  double gemm_margin = 0.10;
  double memory_margin = 0.10;
  double copy_margin = 0.30;
  double link_margin = 0.30;
  double past_margin = 0.15;
  double pair_factor = 2;
  double noise_factor = 2;
  double resolution_max = 4;
};

struct ThresholdRow {
  const char* name;
  double Thresholds::*field;
  double least, most;
  const char* help;
  const char* reason;
};

const std::vector<ThresholdRow>& thresholds();
// Raises what is below what can be told of GPUs that share the processors of their host (the CPU device).
void raise_for_cpu_device(Thresholds&);
// "gemm_margin=0.2". Errors: InvalidArgument names the setting, or its range.
absl::Status set_threshold(Thresholds&, const std::string& text);

}  // namespace ccld::decision::validate
