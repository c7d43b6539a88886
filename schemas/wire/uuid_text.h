// UUIDs as text and as two numbers (Uuid of telemetry.fbs). Contract: pure; only lower case is an UUID's text here, so
// that it comes out as it was. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ccld::wire {

struct UuidBits {
  uint64_t high = 0, low = 0;
};

constexpr size_t uuid_chars = 36;
constexpr bool uuid_has_dash(size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

// False: it is none.
inline bool uuid_of(const std::string& text, UuidBits& bits) {
  if (text.size() != uuid_chars) return false;
  uint64_t halves[2] = {};
  size_t digits = 0;
  for (size_t at = 0; at < uuid_chars; ++at) {
    const char c = text[at];
    if (uuid_has_dash(at)) {
      if (c != '-') return false;
      continue;
    }
    const bool number = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!number && !letter) return false;
    uint64_t& half = halves[digits++ / 16];
    half = half << 4 | static_cast<uint64_t>(number ? c - '0' : c - 'a' + 10);
  }
  bits = {halves[0], halves[1]};
  return true;
}

inline std::string uuid_text(const UuidBits& bits) {
  std::string text(uuid_chars, '-');
  size_t digits = 0;
  for (size_t at = 0; at < uuid_chars; ++at) {
    if (uuid_has_dash(at)) continue;
    const uint64_t half = digits < 16 ? bits.high : bits.low;
    text[at] = "0123456789abcdef"[half >> (60 - 4 * (digits % 16)) & 15];
    ++digits;
  }
  return text;
}

}  // namespace ccld::wire
