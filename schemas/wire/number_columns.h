// Columns of whole numbers in few bytes. Callers write small numbers, as differences to what is likely: a column of
// zeros takes nothing, others take one to four bytes and two bits a number (the format of streamvbyte), more where one
// needs more than 32 bits. Bits that are 0 at the end of all numbers of a column, as in the times of a coarse clock,
// take nothing.
//
// Bytes: a mask of the columns that are not all 0 (a bit each, little endian), then each of them: a byte with its kind
// (two bits) and how many bits it was shifted by (six bits), and its numbers.
//
// Written and read here: Debian compiles streamvbyte without optimization, where a number takes a hundred instructions,
// and ten would do. A test compares the bytes with the library's.
//
// Contract: the reader takes any bytes and says whether they are columns of these lengths. Threads: one object, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ccld::wire {

// Of a mask; columns that are packed alone have a mask of few_columns.
constexpr size_t columns_max = 64, few_columns = 32;

// Differences in either direction are small numbers.
constexpr uint64_t zigzag(uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
constexpr uint64_t unzigzag(uint64_t number) { return (number >> 1) ^ (0 - (number & 1)); }

// Of four in a row about how many such numbers take.
constexpr size_t narrow_size(uint64_t n) {
  return n < 1u << 8 ? 1 : n < 1u << 16 ? 2 : n < 1u << 24 ? 3 : n >> 32 == 0 ? 4 : 8;
}

class ColumnWriter {
 public:
  explicit ColumnWriter(size_t columns = few_columns) : bytes_((columns + 7) / 8) {}
  // The next column.
  void add(const std::vector<uint64_t>& numbers);
  // The next column, of differences in either direction: bits that are 0 at the end of all of them take nothing either.
  void add_differences(std::vector<uint64_t>& differences);
  // Ends it: nothing more may be added.
  std::vector<uint8_t> finish() { return std::move(bytes_); }

 private:
  void add(const std::vector<uint64_t>& numbers, unsigned shift, unsigned shifted);
  size_t columns_ = 0;
  std::vector<uint8_t> bytes_;
};

class ColumnReader {
 public:
  ColumnReader(const uint8_t* bytes, size_t size, size_t columns = few_columns);
  // The next column of so many numbers into `out`. False: they are all 0 and `out` is as it was, or good() says that
  // there is none of this length.
  bool next(size_t length, uint64_t* out);
  // Likewise a column of differences: each is difference_of(its number, shift).
  bool next_differences(size_t length, uint64_t* out, unsigned& shift);
  static uint64_t difference_of(uint64_t number, unsigned shift) { return unzigzag(number) << shift; }
  bool good() const { return good_; }
  // Whether all bytes have been read.
  bool ended() const { return good_ && at_ == size_ && mask_ == 0; }

 private:
  bool next(size_t length, uint64_t* out, unsigned& shift, bool shifts);

  size_t size_, at_ = 0;
  std::unique_ptr<uint8_t[]> bytes_;  // with room behind them: numbers are read four bytes at a time
  uint64_t mask_ = 0;
  size_t columns_ = 0;
  bool good_;
};

}  // namespace ccld::wire
