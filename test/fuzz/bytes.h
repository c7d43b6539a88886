// The input of a fuzz target as numbers and texts, in order; behind its end everything is 0 or empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ccld::fuzz {

class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return at_ == size_; }

  template <class T>
  T number() {
    T value{};
    const size_t n = std::min(sizeof(T), size_ - at_);
    std::memcpy(&value, data_ + at_, n);
    at_ += n;
    return value;
  }
  uint8_t byte() { return number<uint8_t>(); }

  std::string_view text(size_t length) {
    const size_t n = std::min(length, size_ - at_);
    const std::string_view value(reinterpret_cast<const char*>(data_) + at_, n);
    at_ += n;
    return value;
  }
  // Up to the next zero, which is left out.
  std::string_view text_to_zero() {
    const std::string_view rest(reinterpret_cast<const char*>(data_) + at_, size_ - at_);
    const size_t end = rest.find('\0');
    at_ = end == std::string_view::npos ? size_ : at_ + end + 1;
    return rest.substr(0, end);
  }
  std::string_view rest() { return text(size_ - at_); }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

}  // namespace ccld::fuzz
