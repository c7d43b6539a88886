#include "decision/report/revisions_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
std::string revisions_text(const std::vector<Json>& revisions, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"REVISION", "TIME", "CLASS", "STATE", "SURE", "WHAT"}};
  size_t row = 0;
  for (const Json& v : revisions) {
    ++row;
    rows.push_back({absl::StrCat(number_of(v, "revision", row)), text_of(v, "time", "?"), text_of(v, "class", "?"),
                    text_of(v, "state", "?"), absl::StrFormat("%.0f %%", real_of(v, "confidence") * 100),
                    text_of(v, "title", "?")});
  }
  return fitted_table(std::move(rows), {{.right = true}, {}, {.leave_out = 1}, {}, {.right = true}, {.least = 30}},
                      columns);
}

}  // namespace ccld::decision::report
