// Columns of rows of several kinds (number_columns.h): what differs between kinds is in the first row of each, and is
// kept apart from the other rows, whose numbers are then small or all zero. Code that walks over rows calls one of
// these with each value and its prediction: one writes the difference, the other makes the value from it. So the same
// walk packs and unpacks (as residuals.h does for whole columns).
//
// Contract: begin() of a part of a column, as many values as that was told, end(). The parts of a column, and two
// columns in different slots, may be walked together. Values of fewer than 64 bits wrap; good() says whether any did,
// or a column was missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "schemas/wire/number_columns.h"

namespace ccld::wire {

enum class Part : uint8_t { others, firsts };
constexpr size_t parts = 2, slots = 2;

class SplitWriter {
 public:
  static constexpr bool reads = false;
  explicit SplitWriter(size_t columns) : out_(columns) {}
  void begin(Part part, size_t length, size_t slot = 0) { of(part, slot).reserve(length); }
  template <class Value>
  void operator()(const Value& value, uint64_t predicted, Part part = Part::others, size_t slot = 0) {
    of(part, slot).push_back(static_cast<uint64_t>(value) - predicted);
  }
  void end(Part part, size_t slot = 0) {
    out_.add_differences(of(part, slot));
    of(part, slot).clear();
  }
  bool says(Part, size_t = 0) const { return true; }
  bool good() const { return true; }
  std::vector<uint8_t> finish() { return out_.finish(); }

 private:
  std::vector<uint64_t>& of(Part part, size_t slot) { return columns_[slot][static_cast<size_t>(part)]; }
  std::vector<uint64_t> columns_[slots][parts];
  ColumnWriter out_;
};

class SplitReader {
 public:
  static constexpr bool reads = true;
  SplitReader(const uint8_t* bytes, size_t size, size_t columns) : in_(bytes, size, columns) {}
  // No column that follows is longer.
  void reserve(size_t longest) {
    numbers_.reset(new uint64_t[slots * parts * longest]);
    longest_ = longest;
  }
  void begin(Part part, size_t length, size_t slot = 0) {
    uint64_t* const to = numbers_.get() + (slot * parts + static_cast<size_t>(part)) * longest_;
    Column& column = of(part, slot);
    column.next = in_.next_differences(length, to, column.shift) ? to : nullptr;
  }
  template <class Value>
  void operator()(Value& value, uint64_t predicted, Part part = Part::others, size_t slot = 0) {
    Column& column = of(part, slot);
    const uint64_t whole =
        column.next != nullptr ? predicted + ColumnReader::difference_of(*column.next++, column.shift) : predicted;
    value = static_cast<Value>(whole);
    in_range_ &= static_cast<uint64_t>(value) == whole;
  }
  void end(Part, size_t = 0) {}
  // False: each value is as predicted.
  bool says(Part part, size_t slot = 0) { return of(part, slot).next != nullptr; }
  bool good() const { return in_.good() && in_range_; }
  // Whether that was all.
  bool ended() const { return in_.ended(); }

 private:
  struct Column {
    const uint64_t* next = nullptr;
    unsigned shift = 0;
  };
  Column& of(Part part, size_t slot) { return columns_[slot][static_cast<size_t>(part)]; }
  ColumnReader in_;
  std::unique_ptr<uint64_t[]> numbers_;
  size_t longest_ = 0;
  Column columns_[slots][parts];
  bool in_range_ = true;
};

}  // namespace ccld::wire
