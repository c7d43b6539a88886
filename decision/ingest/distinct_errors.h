// Errors counted by cause in place of repeated log lines: how often, when first, when last, and the first text.
// The caller logs when record() returns true, that is once per cause. Bounded: causes beyond the limit share one entry.
// Not thread-safe.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "decision/model/types.h"

namespace ccld::decision::ingest {

struct DistinctError {
  std::string key;
  std::string text;  // of the first occurrence
  uint64_t count = 0;
  Nanoseconds first_ns = 0, last_ns = 0;
};

class DistinctErrors {
 public:
  explicit DistinctErrors(size_t distinct_max);

  // True when this cause was not seen before.
  bool record(absl::string_view key, absl::string_view text, Nanoseconds now_ns);

  const std::vector<DistinctError>& all() const { return errors_; }  // in order of first occurrence

 private:
  size_t distinct_max_;
  std::vector<DistinctError> errors_;
  std::unordered_map<std::string, size_t> index_;  // key -> position in errors_
};

}  // namespace ccld::decision::ingest
