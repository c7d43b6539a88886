// Lists that operators keep in files: a credential a line, what it is bound to, a comment.
//
//   # the comment of nobody
//   CREDENTIAL name=value name="value with blanks" # the comment of this one
//
// Pure. Errors: InvalidArgument with file and line, "keys:7: ...". Threads: any.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::admission {

struct ListLine {
  int number = 0;  // from 1
  std::string credential;
  std::vector<std::pair<std::string, std::string>> bindings;  // in order, names may repeat
  std::string comment;
};

// A line that begins with # is a comment; one whose first word is no credential is an error.
using IsCredential = std::function<bool(absl::string_view)>;

absl::StatusOr<std::vector<ListLine>> parse_lines(absl::string_view text, const std::string& path, const IsCredential&,
                                                  absl::string_view what);
// Without line feed.
std::string text_of(const ListLine&);
// The text without the lines of that credential; everything else stays as it is.
std::string without_lines(absl::string_view text, const std::function<bool(absl::string_view credential)>& is_meant);
// The text with one more line at its end.
std::string with_line(absl::string_view text, const ListLine&);

// What a value or a comment may not have: it would end the line, or the quotes. Empty: nothing.
std::string why_not_value(absl::string_view value);

absl::Status line_error(const std::string& path, int number, absl::string_view what);

}  // namespace ccld::decision::admission
