// Small pieces of the human reports: numbers with thousands separators, spans of time, aligned columns, wrapped prose.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "decision/model/digits.h"
#include "decision/model/printable.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

constexpr size_t text_columns = 110;

using decision::grouped;
std::string grouped(double value);               // at most three decimals
std::string measured(double value);              // three digits are enough to judge by: 4,657  92.5  9.11  0.634
std::string span_text(double milliseconds);      // "35 ms", "12.3 s", "4 min 05 s", "3 h 20 min"
std::string span_of(double milliseconds);        // likewise, but "0.634 ms"
std::string count_text(uint64_t n, absl::string_view singular, absl::string_view plural);  // "1 rank", "2 ranks"
// Consecutive ranks as ranges: "0-2, 4, 6-7".
std::string ranks_text(const Json& ranks);
// Breaks at blanks; lines after the first begin with `indent` blanks, which the first is taken to have already.
std::string wrapped(absl::string_view text, size_t indent, size_t columns = text_columns);

// Rows of equally many cells become lines; columns are as wide as their widest cell, no trailing blanks.
// `right`: columns aligned to the right.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right, size_t indent = 0);

// The same, never wider than `columns`: columns that may be shortened are, the widest first; if that is not enough, columns
// are left out, those with the highest `leave_out` first; what still does not fit is cut. Names come from the jobs that are
// watched: whatever is not printable stands as '?'.
struct Column {
  bool right = false;
  size_t least = 0;      // may be shortened to so many; 0: never
  int leave_out = 0;     // 0: never
};
constexpr size_t columns_unlimited = static_cast<size_t>(-1);
std::string fitted_table(std::vector<std::vector<std::string>> rows, std::vector<Column>, size_t columns, size_t indent = 0);

using decision::printable;
size_t width_of(absl::string_view printable);         // columns on a terminal
// "transformer-dp.." in at most so many columns.
std::string shortened(const std::string& printable, size_t columns);

// Members of documents made elsewhere: a missing member and null read as the fallback.
// Errors: nlohmann::json::exception where the document is not what it should be, or has a number that does not fit: the
// library's own conversion of 1e30 to an integer is undefined.
// text_of is for people: printable, since names come from the jobs that are watched.
std::string text_of(const Json& object, const char* key, const char* fallback = "");
std::string raw_text_of(const Json& object, const char* key);  // as it is; empty where it is no text
uint64_t number_of(const Json& object, const char* key, uint64_t fallback = 0);
int64_t integer_of(const Json& value);
double real_of(const Json& object, const char* key, double fallback = 0);
bool has(const Json& object, const char* key);  // there and not null
const Json& member(const Json& object, const char* key);  // null where missing

// "AllReduce of 1,048,576 float32 (sum), Ring, Simple, 2 channels"
std::string operation_text(const Json& operation);

}  // namespace ccld::decision::report
