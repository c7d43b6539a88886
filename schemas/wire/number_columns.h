// Columns of whole numbers in few bytes. Callers write small numbers, as differences to what is likely: a column of
// zeros takes nothing, others take one to four bytes and two bits a number (streamvbyte), more where one needs more
// than 32 bits. Bits that are 0 at the end of all numbers of a column, as in the times of a coarse clock, take nothing.
//
// Bytes: a mask of the columns that are not all 0 (4 bytes, little endian), then each of them: a byte with its kind
// (two bits) and how many bits it was shifted by (six bits), and its numbers.
//
// Contract: the reader takes any bytes and says whether they are columns of these lengths. Threads: one object, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ccld::wire {

constexpr size_t columns_max = 32;
constexpr size_t mask_bytes = columns_max / 8;

// Differences in either direction are small numbers.
constexpr uint64_t zigzag(uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
constexpr uint64_t unzigzag(uint64_t number) { return (number >> 1) ^ (0 - (number & 1)); }

class ColumnWriter {
 public:
  // The next column, at most columns_max of them.
  void add(const std::vector<uint64_t>& numbers);
  // Ends it: nothing more may be added.
  std::vector<uint8_t> finish();

 private:
  void add_half(const std::vector<uint32_t>& numbers, bool zeros_are_nothing);

  uint32_t mask_ = 0;
  size_t columns_ = 0;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(mask_bytes);
  std::vector<uint32_t> low_, high_;
};

class ColumnReader {
 public:
  // No column is longer than `longest`.
  ColumnReader(const uint8_t* bytes, size_t size, size_t longest);
  // The next column of so many numbers; nullptr: they are all 0, or good() says that there is none of this length.
  // Valid until the next call.
  const uint64_t* next(size_t length);
  bool good() const { return good_; }
  // Whether all bytes have been read.
  bool ended() const { return good_ && at_ == size_ && mask_ == 0; }

 private:
  bool next_half(size_t length, bool zeros_are_nothing, uint32_t* numbers);

  size_t size_, at_ = 0;
  std::unique_ptr<uint8_t[]> bytes_;  // with room behind them, which streamvbyte reads
  std::unique_ptr<uint32_t[]> low_, high_;
  std::unique_ptr<uint64_t[]> numbers_;
  size_t longest_;
  uint32_t mask_ = 0;
  size_t columns_ = 0;
  bool good_;
};

}  // namespace ccld::wire
