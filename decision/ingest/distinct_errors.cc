#include "decision/ingest/distinct_errors.h"

#include <algorithm>

#include "decision/ingest/limits.h"

namespace ccld::decision::ingest {

DistinctErrors::DistinctErrors(size_t distinct_max) : distinct_max_(std::max<size_t>(distinct_max, 1)) {}

bool DistinctErrors::record(absl::string_view key, absl::string_view text, Nanoseconds now_ns) {
  key = key.substr(0, error_text_bytes_max);
  auto found = index_.find(std::string(key));
  // The last place is kept for everything that finds no place of its own.
  if (found == index_.end() && errors_.size() + 1 >= distinct_max_) {
    key = "other";
    text = "further kinds of errors, not told apart";
    found = index_.find(std::string(key));
  }
  if (found != index_.end()) {
    DistinctError& known = errors_[found->second];
    ++known.count;
    known.last_ns = now_ns;
    return false;
  }
  index_.emplace(std::string(key), errors_.size());
  errors_.push_back({std::string(key), std::string(text.substr(0, error_text_bytes_max)), 1, now_ns, now_ns});
  return true;
}

}  // namespace ccld::decision::ingest
