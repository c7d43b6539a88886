#include "decision/report/text_format.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ccld::decision::report {
namespace {

// A real number within [least, end) is cut off to an integer; any other one throws.
void check_fits(const Json& value, double least, double end) {
  if (!value.is_number_float()) return;
  const auto real = value.get<double>();
  if (!(real >= least && real < end)) (void)value.get_ref<const Json::number_integer_t&>();
}

}  // namespace

std::string grouped(double value) {
  constexpr double exact_max = 1e15;
  if (!std::isfinite(value) || std::abs(value) > exact_max) return absl::StrFormat("%g", value);
  const double rounded = std::round(std::abs(value) * 1e3) / 1e3;
  const auto whole = static_cast<uint64_t>(rounded);
  std::string text = absl::StrCat(value < 0 && rounded > 0 ? "-" : "", grouped(whole));
  const auto thousandths = static_cast<unsigned>(std::round((rounded - static_cast<double>(whole)) * 1e3));
  if (thousandths > 0) {
    std::string decimals = absl::StrFormat("%03u", thousandths);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    absl::StrAppend(&text, ".", decimals);
  }
  return text;
}

std::string measured(double value) {
  const double size = std::abs(value);
  const double unit = size >= 100 ? 1 : size >= 10 ? 0.1 : size >= 1 ? 0.01 : 0.001;
  return grouped(std::round(value / unit) * unit);
}

std::string span_of(double milliseconds) {
  return milliseconds < 1000 ? absl::StrCat(measured(milliseconds), " ms") : span_text(milliseconds);
}

std::string span_text(double milliseconds) {
  if (!(milliseconds >= 0)) milliseconds = 0;
  if (milliseconds < 1000) return absl::StrFormat("%.0f ms", std::floor(milliseconds));
  const double seconds = milliseconds / 1e3;
  if (seconds < 60) return absl::StrFormat("%.1f s", std::floor(seconds * 10) / 10);
  const auto whole = static_cast<uint64_t>(std::min(seconds, 1e15));
  if (whole < 3600) return absl::StrFormat("%u min %02u s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return absl::StrFormat("%u h %02u min", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%u d %u h", whole / 86400, whole / 3600 % 24);
}

std::string count_text(uint64_t n, absl::string_view singular, absl::string_view plural) {
  return absl::StrCat(grouped(n), " ", n == 1 ? singular : plural);
}

std::string ranks_text(const Json& ranks) {
  std::vector<int64_t> sorted;
  for (const Json& rank : ranks) sorted.push_back(integer_of(rank));
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> parts;
  for (size_t first = 0; first < sorted.size();) {
    size_t last = first;
    while (last + 1 < sorted.size() && sorted[last + 1] - sorted[last] <= 1) ++last;
    const bool one = sorted[first] == sorted[last];
    parts.push_back(one ? absl::StrCat(sorted[first]) : absl::StrCat(sorted[first], "-", sorted[last]));
    first = last + 1;
  }
  return absl::StrJoin(parts, ", ");
}

std::string wrapped(absl::string_view text, size_t indent, size_t columns) {
  std::string out;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (column > indent && column + 1 + word.size() > columns) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right, size_t indent) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < widths.size() && c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (size_t c = 0; c < widths.size() && c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", right[c] ? padding : "", row[c], right[c] ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

namespace {

// From Hangul on most scripts are two columns wide; a few that are not only leave a column unused.
constexpr uint32_t wide_from = 0x1100;
size_t columns_of(uint32_t code) { return code >= wide_from ? 2 : 1; }

}  // namespace

size_t width_of(absl::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t length = std::max<size_t>(character_at(text, at, &code), 1);
    width += columns_of(code);
    at += length;
  }
  return width;
}

std::string shortened(const std::string& text, size_t columns) {
  if (width_of(text) <= columns) return text;
  constexpr absl::string_view rest = "..";
  const size_t kept = columns > rest.size() ? columns - rest.size() : columns;
  std::string out;
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t length = std::max<size_t>(character_at(text, at, &code), 1);
    if (width + columns_of(code) > kept) break;
    width += columns_of(code);
    out.append(text, at, length);
    at += length;
  }
  if (columns > rest.size()) absl::StrAppend(&out, rest);
  return out;
}

std::string fitted_table(std::vector<std::vector<std::string>> rows, std::vector<Column> layout, size_t columns,
                         size_t indent) {
  constexpr size_t between = 2;
  std::vector<size_t> widths(layout.size(), 0);
  std::vector<bool> shown(layout.size(), true);
  for (auto& row : rows) {
    row.resize(layout.size());
    for (size_t c = 0; c < layout.size(); ++c) {
      row[c] = printable(row[c]);
      widths[c] = std::max(widths[c], width_of(row[c]));
    }
  }
  const auto total = [&] {
    size_t sum = indent, n = 0;
    for (size_t c = 0; c < layout.size(); ++c)
      if (shown[c]) sum += widths[c] + (n++ > 0 ? between : 0);
    return sum;
  };
  // How narrow the table can become decides which columns there is room for.
  const auto least_total = [&] {
    size_t less = 0;
    for (size_t c = 0; c < layout.size(); ++c)
      if (shown[c] && layout[c].least > 0 && widths[c] > layout[c].least) less += widths[c] - layout[c].least;
    return total() - less;
  };
  while (least_total() > columns) {
    size_t out = layout.size();
    for (size_t c = 0; c < layout.size(); ++c)
      if (shown[c] && layout[c].leave_out > 0 && (out == layout.size() || layout[c].leave_out > layout[out].leave_out)) out = c;
    if (out == layout.size()) break;
    shown[out] = false;
  }
  while (total() > columns) {
    size_t widest = layout.size();
    for (size_t c = 0; c < layout.size(); ++c)
      if (shown[c] && layout[c].least > 0 && widths[c] > layout[c].least && (widest == layout.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == layout.size()) break;
    --widths[widest];
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    bool first = true;
    for (size_t c = 0; c < layout.size(); ++c) {
      if (!shown[c]) continue;
      const std::string cell = shortened(row[c], widths[c]);
      const std::string padding(widths[c] - std::min(widths[c], width_of(cell)), ' ');
      absl::StrAppend(&line, first ? "" : std::string(between, ' '), layout[c].right ? padding : "", cell,
                      layout[c].right ? "" : padding);
      first = false;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, shortened(line, columns), "\n");
  }
  return out;
}

const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool has(const Json& object, const char* key) { return !member(object, key).is_null(); }

std::string text_of(const Json& object, const char* key, const char* fallback) {
  const Json& value = member(object, key);
  if (value.is_null()) return fallback;
  return printable(value.is_string() ? value.get_ref<const std::string&>() : to_line(value));
}

std::string raw_text_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

uint64_t number_of(const Json& object, const char* key, uint64_t fallback) {
  const Json& value = member(object, key);
  if (value.is_null()) return fallback;
  check_fits(value, 0, 0x1p64);
  return value.get<uint64_t>();
}

int64_t integer_of(const Json& value) {
  check_fits(value, -0x1p63, 0x1p63);
  return value.get<int64_t>();
}

double real_of(const Json& object, const char* key, double fallback) {
  const Json& value = member(object, key);
  return value.is_null() ? fallback : value.get<double>();
}

std::string operation_text(const Json& operation) {
  std::string out = absl::StrCat(text_of(operation, "function", "operation"), " of ", grouped(number_of(operation, "count")),
                                 " ", text_of(operation, "datatype", "elements"));
  if (has(operation, "reduction")) absl::StrAppend(&out, " (", text_of(operation, "reduction"), ")");
  if (has(operation, "root")) absl::StrAppend(&out, ", root ", number_of(operation, "root"));
  for (const char* key : {"algorithm", "protocol"}) {
    const std::string value = text_of(operation, key, "unknown");
    if (value != "unknown") absl::StrAppend(&out, ", ", value);
  }
  if (has(operation, "channels")) absl::StrAppend(&out, ", ", count_text(number_of(operation, "channels"), "channel", "channels"));
  return out;
}

}  // namespace ccld::decision::report
