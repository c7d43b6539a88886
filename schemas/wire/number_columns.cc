#include "schemas/wire/number_columns.h"

#include <streamvbyte.h>

#include <array>
#include <cstring>
#include <utility>

namespace ccld::wire {
namespace {

enum class Kind : uint8_t {
  narrow = 1,       // one to four bytes each
  mostly_zero = 2,  // none, one, two or four bytes each
  wide = 3,         // halves: low ones as narrow, high ones as mostly_zero
};

constexpr size_t read_beyond = sizeof(uint32_t);

size_t mostly_zero_size(uint32_t n) { return n == 0 ? 0 : n < 1u << 8 ? 1 : n < 1u << 16 ? 2 : 4; }

// How numbers are written: for each of the four two-bit controls, how many bytes follow.
struct Coding {
  std::array<uint8_t, 4> bytes;
  std::array<uint32_t, 4> masks{};
  std::array<uint8_t, 256> bytes_of_four{};  // by their control byte
  constexpr explicit Coding(std::array<uint8_t, 4> b) : bytes(b) {
    for (size_t i = 0; i < 4; ++i) masks[i] = b[i] == 4 ? UINT32_MAX : (uint32_t{1} << (8 * b[i])) - 1;
    for (size_t control = 0; control < 256; ++control)
      for (size_t i = 0; i < 4; ++i)
        bytes_of_four[control] = static_cast<uint8_t>(bytes_of_four[control] + b[control >> (2 * i) & 3]);
  }
};
constexpr Coding narrow({1, 2, 3, 4}), mostly_zero({0, 1, 2, 4});

constexpr size_t control_bytes(size_t numbers) { return (numbers + 3) / 4; }

// Where the numbers end; beyond `end`: they are not all there.
size_t data_bytes(const Coding& coding, const uint8_t* control, size_t length) {
  size_t data = 0;
  for (size_t i = 0; i < length / 4; ++i) data += coding.bytes_of_four[control[i]];
  for (size_t i = 0; i < length % 4; ++i) data += coding.bytes[control[length / 4] >> (2 * i) & 3];
  return data;
}

// Puts each number, shifted, to what is in `out`.
template <bool first_half>
void read_numbers(const Coding& coding, const uint8_t* control, const uint8_t* data, size_t length, unsigned shift,
                  uint64_t* out) {
  const auto next = [&](unsigned code, uint64_t& to) {
    uint32_t number;
    std::memcpy(&number, data, sizeof number);
    data += coding.bytes[code];
    const uint64_t value = uint64_t{number & coding.masks[code]} << shift;
    to = first_half ? value : to | value;
  };
  size_t i = 0;
  for (; i + 4 <= length; i += 4, ++control) {
    const unsigned c = *control;
    next(c & 3, out[i]);
    next(c >> 2 & 3, out[i + 1]);
    next(c >> 4 & 3, out[i + 2]);
    next(c >> 6, out[i + 3]);
  }
  for (unsigned bit = 0; i < length; ++i, bit += 2) next(*control >> bit & 3, out[i]);
}

}  // namespace

void ColumnWriter::add(const std::vector<uint64_t>& numbers) {
  const size_t column = columns_++;
  uint64_t all = 0;
  for (uint64_t n : numbers) all |= n;
  if (all == 0) return;
  bytes_[column / 8] = static_cast<uint8_t>(bytes_[column / 8] | 1u << column % 8);
  const auto shift = static_cast<unsigned>(__builtin_ctzll(all));
  const bool wide = all >> shift >> 32 != 0;
  low_.clear(), high_.clear();
  size_t narrow_bytes = 0, mostly_zero_bytes = 0;
  for (uint64_t n : numbers) {
    n >>= shift;
    low_.push_back(static_cast<uint32_t>(n));
    if (wide) high_.push_back(static_cast<uint32_t>(n >> 32));
    narrow_bytes += narrow_size(low_.back()), mostly_zero_bytes += mostly_zero_size(low_.back());
  }
  const Kind kind = wide ? Kind::wide : mostly_zero_bytes < narrow_bytes ? Kind::mostly_zero : Kind::narrow;
  bytes_.push_back(static_cast<uint8_t>(static_cast<unsigned>(kind) | shift << 2));
  add_half(low_, kind == Kind::mostly_zero);
  if (wide) add_half(high_, true);
}

void ColumnWriter::add_half(const std::vector<uint32_t>& numbers, bool zeros_are_nothing) {
  const auto length = static_cast<uint32_t>(numbers.size());
  const size_t before = bytes_.size();
  bytes_.resize(before + streamvbyte_max_compressedbytes(length));
  const auto encode = zeros_are_nothing ? streamvbyte_encode_0124 : streamvbyte_encode;
  bytes_.resize(before + encode(numbers.data(), length, bytes_.data() + before));
}

// Uninitialized: all that is read has been written.
ColumnReader::ColumnReader(const uint8_t* bytes, size_t size, size_t columns)
    : size_(size), bytes_(new uint8_t[size + read_beyond]), good_(size >= (columns + 7) / 8) {
  if (!good_) return;
  std::memcpy(bytes_.get(), bytes, size);
  std::memset(bytes_.get() + size, 0, read_beyond);
  for (; at_ < (columns + 7) / 8; ++at_) mask_ |= uint64_t{bytes_[at_]} << (8 * at_);
}

bool ColumnReader::next(size_t length, uint64_t* out) {
  const uint64_t bit = uint64_t{1} << columns_++;
  if (!good_ || (mask_ & bit) == 0) return false;
  mask_ &= ~bit;
  const uint8_t header = at_ < size_ ? bytes_[at_++] : 0;
  const auto kind = static_cast<Kind>(header & 3);
  const unsigned shift = header >> 2;
  const auto half = [&](const Coding& coding, auto read, unsigned by) {
    const size_t controls = control_bytes(length);
    if (size_ - at_ < controls) return false;
    const uint8_t* const control = bytes_.get() + at_;
    const size_t data = data_bytes(coding, control, length);
    if (size_ - at_ - controls < data) return false;
    at_ += controls + data;
    if (by < 64) read(coding, control, control + controls, length, by, out);
    return true;
  };
  good_ = kind != Kind{} && half(kind == Kind::mostly_zero ? mostly_zero : narrow, read_numbers<true>, shift) &&
          (kind != Kind::wide || half(mostly_zero, read_numbers<false>, 32 + shift));
  return good_;
}

}  // namespace ccld::wire
