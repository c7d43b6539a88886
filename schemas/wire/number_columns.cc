#include "schemas/wire/number_columns.h"

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
constexpr auto narrow_code = [](uint32_t n) -> unsigned { return (n > 0xff) + (n > 0xffff) + (n > 0xffffff); };
constexpr auto mostly_zero_code = [](uint32_t n) -> unsigned { return (n > 0) + (n > 0xff) + (n > 0xffff); };

constexpr size_t control_bytes(size_t numbers) { return (numbers + 3) / 4; }

// The lower 32 bits of each number, shifted: a control byte for four, then all bytes.
template <class Code>
void write_numbers(const Coding& coding, Code code, const std::vector<uint64_t>& numbers, unsigned shift,
                   std::vector<uint8_t>& out) {
  const size_t before = out.size(), controls = control_bytes(numbers.size());
  out.resize(before + controls + numbers.size() * sizeof(uint32_t));
  uint8_t* const control = out.data() + before;
  uint8_t* data = control + controls;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<uint32_t>(shift < 64 ? numbers[i] >> shift : 0);
    const unsigned c = code(number);
    control[i / 4] = static_cast<uint8_t>(control[i / 4] | c << (2 * (i % 4)));
    std::memcpy(data, &number, sizeof number);
    data += coding.bytes[c];
  }
  out.resize(static_cast<size_t>(data - out.data()));
}

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
  uint64_t all = 0;
  for (uint64_t n : numbers) all |= n;
  const auto shift = all == 0 ? 0u : static_cast<unsigned>(__builtin_ctzll(all));
  add(numbers, shift, 0);
}

void ColumnWriter::add_differences(std::vector<uint64_t>& differences) {
  uint64_t all = 0;
  for (uint64_t d : differences) all |= d;
  if (all == 0) return static_cast<void>(++columns_);
  const auto shift = static_cast<unsigned>(__builtin_ctzll(all));
  for (uint64_t& d : differences) d = zigzag(static_cast<uint64_t>(static_cast<int64_t>(d) >> shift));
  add(differences, 0, shift);
}

// Numbers of which so many bits are to be shifted out, and were already.
void ColumnWriter::add(const std::vector<uint64_t>& numbers, unsigned shift, unsigned shifted) {
  const size_t column = columns_++;
  uint64_t all = 0;
  for (uint64_t n : numbers) all |= n;
  if (all == 0) return;
  bytes_[column / 8] = static_cast<uint8_t>(bytes_[column / 8] | 1u << column % 8);
  Kind kind = Kind::wide;
  if (all >> shift >> 32 == 0) {
    size_t narrow_bytes = 0, mostly_zero_bytes = 0;
    for (uint64_t n : numbers) {
      const auto low = static_cast<uint32_t>(n >> shift);
      narrow_bytes += narrow.bytes[narrow_code(low)], mostly_zero_bytes += mostly_zero.bytes[mostly_zero_code(low)];
    }
    kind = mostly_zero_bytes < narrow_bytes ? Kind::mostly_zero : Kind::narrow;
  }
  bytes_.push_back(static_cast<uint8_t>(static_cast<unsigned>(kind) | (shift + shifted) << 2));
  if (kind == Kind::mostly_zero)
    write_numbers(mostly_zero, mostly_zero_code, numbers, shift, bytes_);
  else
    write_numbers(narrow, narrow_code, numbers, shift, bytes_);
  if (kind == Kind::wide) write_numbers(mostly_zero, mostly_zero_code, numbers, shift + 32, bytes_);
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
  unsigned shift = 0;
  return next(length, out, shift, true);
}

bool ColumnReader::next_differences(size_t length, uint64_t* out, unsigned& shift) {
  return next(length, out, shift, false);
}

bool ColumnReader::next(size_t length, uint64_t* out, unsigned& shift, bool shifts) {
  const uint64_t bit = uint64_t{1} << columns_++;
  if (!good_ || (mask_ & bit) == 0) return false;
  mask_ &= ~bit;
  const uint8_t header = at_ < size_ ? bytes_[at_++] : 0;
  const auto kind = static_cast<Kind>(header & 3);
  shift = header >> 2;
  const unsigned now = shifts ? shift : 0;
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
  good_ = kind != Kind{} && half(kind == Kind::mostly_zero ? mostly_zero : narrow, read_numbers<true>, now) &&
          (kind != Kind::wide || half(mostly_zero, read_numbers<false>, 32 + now));
  return good_;
}

}  // namespace ccld::wire
