#include "decision/report/bounded_json.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace ccld::decision::report {
namespace {

absl::Status refuse(size_t at, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " (byte ", at, ")"));
}

// The quote that ends the string whose first character is at `at`; the end of the text if none does.
size_t end_of_string(absl::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at;
}

}  // namespace

absl::Status check_json_bounds(absl::string_view text) {
  // Of each open bracket: the commas behind it that belong to it, or -1 of a list, whose length has no bound.
  int commas[json_depth_max] = {};
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"': at = end_of_string(text, at + 1); break;
      case '{':
      case '[':
        if (depth == json_depth_max) return refuse(at, absl::StrCat("nested more than ", json_depth_max, " deep"));
        commas[depth++] = text[at] == '{' ? 0 : -1;
        break;
      case '}':
      case ']':
        if (depth == 0) return absl::OkStatus();  // no JSON: the parser stops here, too
        --depth;
        break;
      case ',':
        if (depth > 0 && commas[depth - 1] >= 0 && ++commas[depth - 1] >= json_members_max)
          return refuse(at, absl::StrCat("an object of more than ", json_members_max, " members"));
        break;
      default: break;
    }
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::report
