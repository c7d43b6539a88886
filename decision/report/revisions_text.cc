#include "decision/report/revisions_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"

namespace ccld::decision::report {
namespace {

std::string culprits_of(const Json& v) {
  constexpr size_t named_max = 3;
  std::vector<std::string> names;
  for (const Json& c : member(v, "culprits")) {
    if (names.size() == named_max) {
      names.push_back("...");
      break;
    }
    const std::string component = text_of(c, "component", "unknown");
    names.push_back(absl::StrCat(culprit_rank(v, c), component == "unknown" ? "" : absl::StrCat(" ", component)));
  }
  return names.empty() ? "not singled out" : absl::StrJoin(names, "; ");
}

}  // namespace

std::string revisions_text(const std::vector<Json>& revisions) {
  std::vector<std::vector<std::string>> rows = {{"REVISION", "TIME", "CLASS", "STATE", "SURE", "CULPRIT"}};
  size_t row = 0;
  for (const Json& v : revisions) {
    ++row;
    rows.push_back({absl::StrCat(number_of(v, "revision", row)), text_of(v, "time", "?"), text_of(v, "class", "?"), text_of(v, "state", "?"),
                    absl::StrFormat("%.0f %%", real_of(v, "confidence") * 100), culprits_of(v)});
  }
  return table(rows, {true, false, false, false, true, false});
}

}  // namespace ccld::decision::report
