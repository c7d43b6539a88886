// Numbers of any size in a byte: exact while they are small, then to within one part in 2^(Bits + 1). 255 stands for
// "not known". Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ccld::decision {

template <int Bits>
struct SmallLog {
  static constexpr uint8_t none = 255;
  static constexpr uint8_t largest = 254;  // stands for everything beyond, too

  static constexpr uint8_t encode(uint64_t n) {
    if (n < exact) return static_cast<uint8_t>(n);
    const int shift = std::bit_width(n) - 1 - Bits;
    const uint64_t code = (static_cast<uint64_t>(shift + 1) << Bits) | ((n >> shift) & (exact - 1));
    return static_cast<uint8_t>(std::min<uint64_t>(code, largest));
  }
  // The middle of what has this code.
  static constexpr uint64_t decode(uint8_t code) {
    if (code < exact) return code;
    const int shift = (code >> Bits) - 1;
    return ((exact | (code & (exact - 1))) << shift) + ((uint64_t{1} << shift) >> 1);
  }

 private:
  static constexpr uint64_t exact = uint64_t{1} << Bits;
};

}  // namespace ccld::decision
