#include "decision/report/page_query.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::report {

absl::StatusOr<PageQuery> parse_page_query(const std::multimap<std::string, std::string>& parameters, unsigned known,
                                           size_t rows_max) {
  PageQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "limit" && (known & with_page) != 0) {
      uint64_t rows = 0;
      if (!absl::SimpleAtoi(value, &rows) || rows < 1 || rows > rows_max)
        return absl::InvalidArgumentError(absl::StrCat("limit must be a whole number from 1 to ", rows_max));
      query.limit = rows;
    } else if (name == "after" && (known & with_page) != 0) {
      query.after = value;
    } else if (name == "job" && (known & with_job) != 0) {
      query.job = value;
    } else if (name == "state" && (known & with_state) != 0) {
      query.troubled = value == "troubled";
      query.state = trouble_of(value);
      if (!query.troubled && !query.state.has_value())
        return absl::InvalidArgumentError("state must be troubled, confirmed, suspected, victim, silent, busy, idle or ended");
    } else if (name == "state" && (known & with_process_state) != 0) {
      query.silent = value == "silent";
      query.stopped = value == "stopped";
      if (!query.silent && !query.stopped) return absl::InvalidArgumentError("state must be silent or stopped");
    } else if (name == "ranks" && (known & with_ranks) != 0) {
      query.ranks = !value.empty() && value != "0";
    } else {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", name, "' is not known here"));
    }
  }
  return query;
}

}  // namespace ccld::decision::report
