// Numbers as strings of bytes: seven bits at a time, the lowest first. Small ones take one byte.
#pragma once

#include <cstdint>
#include <string>

namespace ccld::decision {

inline void write_number(std::string& out, uint64_t n) {
  for (; n >= 0x80; n >>= 7) out.push_back(static_cast<char>(n | 0x80));
  out.push_back(static_cast<char>(n));
}

// Of what write_number() has written, from `at` on.
inline uint64_t read_number(const std::string& in, size_t& at) {
  uint64_t n = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(in[at++]);
    n |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return n;
  }
}

// Small for numbers near zero, of either sign.
constexpr uint64_t folded(int64_t n) { return static_cast<uint64_t>(n) << 1 ^ static_cast<uint64_t>(n >> 63); }
constexpr int64_t unfolded(uint64_t n) { return static_cast<int64_t>(n >> 1 ^ (0 - (n & 1))); }

}  // namespace ccld::decision
