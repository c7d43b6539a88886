#include "decision/admission/lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ccld::decision::admission {
namespace {

absl::string_view first_word(absl::string_view line) { return line.substr(0, line.find_first_of(" \t\r")); }

// Takes `name=value` off the line. Nothing of what is wrong: it is one.
std::string take_binding(absl::string_view& line, std::pair<std::string, std::string>& out) {
  const size_t equals = line.find_first_of("= \t");
  if (equals == absl::string_view::npos || line[equals] != '=' || equals == 0)
    return absl::StrCat("'", first_word(line), "' is not name=value");
  out.first = std::string(line.substr(0, equals));
  line.remove_prefix(equals + 1);
  if (!line.empty() && line.front() == '"') {
    const size_t close = line.find('"', 1);
    if (close == absl::string_view::npos) return absl::StrCat(out.first, ": the second \" is missing");
    out.second = std::string(line.substr(1, close - 1));
    line.remove_prefix(close + 1);
    if (!line.empty() && !absl::ascii_isspace(static_cast<unsigned char>(line.front())))
      return absl::StrCat(out.first, ": a blank is missing behind the second \"");
  } else {
    const absl::string_view value = first_word(line);
    out.second = std::string(value);
    line.remove_prefix(value.size());
  }
  return out.second.empty() ? absl::StrCat(out.first, " has no value") : "";
}

// Empty: right.
std::string parse_line(absl::string_view line, ListLine& out) {
  const absl::string_view credential = first_word(line);
  out.credential = std::string(credential);
  line.remove_prefix(credential.size());
  for (;;) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) return "";
    if (line.front() == '#') {
      out.comment = std::string(absl::StripAsciiWhitespace(line.substr(1)));
      return "";
    }
    std::pair<std::string, std::string> binding;
    if (std::string wrong = take_binding(line, binding); !wrong.empty()) return wrong;
    out.bindings.push_back(std::move(binding));
  }
}

}  // namespace

absl::Status line_error(const std::string& path, int number, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", what));
}

absl::StatusOr<std::vector<ListLine>> parse_lines(absl::string_view text, const std::string& path,
                                                  const IsCredential& is_credential, absl::string_view what) {
  std::vector<ListLine> lines;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (!is_credential(first_word(line)))
      return line_error(path, number, absl::StrCat("it does not begin with ", what));
    ListLine parsed;
    parsed.number = number;
    if (const std::string wrong = parse_line(line, parsed); !wrong.empty()) return line_error(path, number, wrong);
    lines.push_back(std::move(parsed));
  }
  return lines;
}

std::string text_of(const ListLine& line) {
  std::string out = line.credential;
  for (const auto& [name, value] : line.bindings) {
    const bool quoted = value.find_first_of(" \t#") != std::string::npos;
    absl::StrAppend(&out, " ", name, "=", quoted ? "\"" : "", value, quoted ? "\"" : "");
  }
  if (!line.comment.empty()) absl::StrAppend(&out, " # ", line.comment);
  return out;
}

std::string without_lines(absl::string_view text, const std::function<bool(absl::string_view)>& is_meant) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const absl::string_view line = text.substr(0, end == absl::string_view::npos ? text.size() : end + 1);
    text.remove_prefix(line.size());
    if (!is_meant(first_word(absl::StripAsciiWhitespace(line)))) absl::StrAppend(&out, line);
  }
  return out;
}

std::string with_line(absl::string_view text, const ListLine& line) {
  const bool open_end = !text.empty() && text.back() != '\n';
  return absl::StrCat(text, open_end ? "\n" : "", text_of(line), "\n");
}

std::string why_not_value(absl::string_view value) {
  for (const char c : value) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return "a control character is in it";
    if (c == '"') return "a \" is in it";
  }
  return "";
}

}  // namespace ccld::decision::admission
