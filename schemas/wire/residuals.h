// How values differ from what was predicted of them, column by column. Code that walks over rows calls one of these
// with each value and its prediction: one writes the difference, the other makes the value from it. So the same walk
// packs and unpacks.
//
// Contract: between begin() and end() as many values as begin() was told. Values of fewer than 64 bits wrap; good()
// says whether any did, or a column was missing.
#pragma once

#include <memory>
#include <vector>

#include "schemas/wire/number_columns.h"

namespace ccld::wire {

class ResidualWriter {
 public:
  void begin(size_t length) {
    column_.clear();
    column_.reserve(length);
  }
  template <class Value>
  void operator()(const Value& value, uint64_t predicted) {
    column_.push_back(zigzag(static_cast<uint64_t>(value) - predicted));
  }
  void end() { out_.add(column_); }
  bool good() const { return true; }
  std::vector<uint8_t> finish() { return out_.finish(); }

 private:
  std::vector<uint64_t> column_;
  ColumnWriter out_;
};

class ResidualReader {
 public:
  // No column is longer than `longest`.
  ResidualReader(const uint8_t* bytes, size_t size, size_t longest)
      : in_(bytes, size), numbers_(new uint64_t[longest]), longest_(longest) {}
  void begin(size_t length) {
    next_ = length <= longest_ && in_.next(length, numbers_.get()) ? numbers_.get() : nullptr;
  }
  template <class Value>
  void operator()(Value& value, uint64_t predicted) {
    const uint64_t whole = next_ != nullptr ? predicted + unzigzag(*next_++) : predicted;
    value = static_cast<Value>(whole);
    in_range_ &= static_cast<uint64_t>(value) == whole;
  }
  void end() {}
  bool good() const { return in_.good() && in_range_; }
  // Whether that was all.
  bool ended() const { return in_.ended(); }

 private:
  ColumnReader in_;
  std::unique_ptr<uint64_t[]> numbers_;
  size_t longest_;
  const uint64_t* next_ = nullptr;
  bool in_range_ = true;
};

// A column: `value(i)` of each row.
template <class Code, class Each>
void each_of(Code& code, size_t from, size_t rows, Each value) {
  code.begin(rows - from);
  for (size_t i = from; i < rows; ++i) value(i);
  code.end();
}

}  // namespace ccld::wire
