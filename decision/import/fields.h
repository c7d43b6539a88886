// Members of a dump by name, with errors that say where: "entries[3].record_id: an integer is expected, found a text".
// Errors: DataLoss; the caller puts the name of the file in front. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "decision/import/value.h"

namespace ccld::decision::dumps {

// One dict of a dump. The first error is kept, and whatever is asked for after it reads as the fallback.
class Fields {
 public:
  Fields(const Value* value, std::string place, absl::Status& status);

  // Required ones say so if they are missing. Nothing (None, null) counts as missing.
  const Value* required(const char* key);
  const Value* optional(const char* key) const;
  int64_t integer(const char* key);
  int64_t integer_or(const char* key, int64_t fallback);  // also a number as text: the JSON form has it so
  bool boolean_or(const char* key, bool fallback);
  double number_or(const char* key, double fallback);
  std::string text(const char* key);
  std::string text_or(const char* key, std::string fallback);
  const List& list(const char* key);  // empty if missing, which is no error
  std::string place_of(absl::string_view key) const;
  void refuse(absl::string_view key, absl::string_view why);
  bool ok() const { return status_.ok(); }

 private:
  void wrong(absl::string_view key, const char* wanted, const Value& found);
  std::string checked(const char* key, const Value& v);
  const Value* value_;
  std::string place_;
  absl::Status& status_;
};

}  // namespace ccld::decision::dumps
