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

constexpr size_t read_beyond = 32;  // streamvbyte loads 16 or 32 bytes at a time

// Bytes of four numbers, by their control byte.
constexpr auto sizes_of(std::array<uint8_t, 4> bytes) {
  std::array<uint8_t, 256> sizes{};
  for (size_t control = 0; control < sizes.size(); ++control)
    for (size_t number = 0; number < 4; ++number)
      sizes[control] = static_cast<uint8_t>(sizes[control] + bytes[control >> (2 * number) & 3]);
  return sizes;
}
constexpr std::array<uint8_t, 4> narrow_bytes{1, 2, 3, 4}, mostly_zero_bytes{0, 1, 2, 4};
constexpr auto narrow_sizes = sizes_of(narrow_bytes), mostly_zero_sizes = sizes_of(mostly_zero_bytes);

constexpr size_t control_bytes(size_t numbers) { return (numbers + 3) / 4; }

size_t narrow_size(uint32_t n) { return n < 1u << 8 ? 1 : n < 1u << 16 ? 2 : n < 1u << 24 ? 3 : 4; }
size_t mostly_zero_size(uint32_t n) { return n == 0 ? 0 : n < 1u << 8 ? 1 : n < 1u << 16 ? 2 : 4; }

}  // namespace

void ColumnWriter::add(const std::vector<uint64_t>& numbers) {
  const size_t column = columns_++;
  uint64_t all = 0;
  for (uint64_t n : numbers) all |= n;
  if (all == 0) return;
  mask_ |= uint32_t{1} << column;
  const auto shift = static_cast<unsigned>(__builtin_ctzll(all));
  const bool wide = all >> shift >> 32 != 0;
  low_.clear(), high_.clear();
  size_t narrow = 0, mostly_zero = 0;
  for (uint64_t n : numbers) {
    n >>= shift;
    low_.push_back(static_cast<uint32_t>(n));
    if (wide) high_.push_back(static_cast<uint32_t>(n >> 32));
    narrow += narrow_size(low_.back()), mostly_zero += mostly_zero_size(low_.back());
  }
  const Kind kind = wide ? Kind::wide : mostly_zero < narrow ? Kind::mostly_zero : Kind::narrow;
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

std::vector<uint8_t> ColumnWriter::finish() {
  for (size_t i = 0; i < mask_bytes; ++i) bytes_[i] = static_cast<uint8_t>(mask_ >> (8 * i));
  return std::move(bytes_);
}

// Uninitialized: all that is read has been written.
ColumnReader::ColumnReader(const uint8_t* bytes, size_t size, size_t longest)
    : size_(size),
      bytes_(new uint8_t[size + read_beyond]),
      low_(new uint32_t[longest]),
      high_(new uint32_t[longest]),
      numbers_(new uint64_t[longest]),
      longest_(longest),
      good_(size >= mask_bytes) {
  if (!good_) return;
  std::memcpy(bytes_.get(), bytes, size);
  std::memset(bytes_.get() + size, 0, read_beyond);
  for (; at_ < mask_bytes; ++at_) mask_ |= uint32_t{bytes_[at_]} << (8 * at_);
}

const uint64_t* ColumnReader::next(size_t length) {
  const uint32_t bit = uint32_t{1} << columns_++;
  if (!good_ || (mask_ & bit) == 0) return nullptr;
  mask_ &= ~bit;
  const uint8_t header = at_ < size_ ? bytes_[at_++] : 0;
  const auto kind = static_cast<Kind>(header & 3);
  const unsigned shift = header >> 2;
  good_ = kind != Kind{} && length <= longest_ && next_half(length, kind == Kind::mostly_zero, low_.get()) &&
          (kind != Kind::wide || next_half(length, true, high_.get()));
  if (!good_) return nullptr;
  if (kind == Kind::wide)
    for (size_t i = 0; i < length; ++i) numbers_[i] = (low_[i] | uint64_t{high_[i]} << 32) << shift;
  else
    for (size_t i = 0; i < length; ++i) numbers_[i] = uint64_t{low_[i]} << shift;
  return numbers_.get();
}

bool ColumnReader::next_half(size_t length, bool zeros_are_nothing, uint32_t* numbers) {
  const size_t controls = control_bytes(length);
  if (size_ - at_ < controls) return false;
  const uint8_t* const control = bytes_.get() + at_;
  size_t data = 0;
  for (size_t i = 0; i < length / 4; ++i) data += (zeros_are_nothing ? mostly_zero_sizes : narrow_sizes)[control[i]];
  for (size_t i = 0; i < length % 4; ++i)
    data += (zeros_are_nothing ? mostly_zero_bytes : narrow_bytes)[control[controls - 1] >> (2 * i) & 3];
  if (size_ - at_ - controls < data) return false;
  const auto decode = zeros_are_nothing ? streamvbyte_decode_0124 : streamvbyte_decode;
  decode(control, numbers, static_cast<uint32_t>(length));
  at_ += controls + data;
  return true;
}

}  // namespace ccld::wire
