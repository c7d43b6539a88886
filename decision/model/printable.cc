#include "decision/model/printable.h"

#include <algorithm>
#include <iterator>

namespace ccld::decision {
namespace {

// Controls, and what changes the order of a text or cannot be seen in it.
bool is_hidden(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range ranges[] = {{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},      {0x061c, 0x061c},
                              {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x2069},
                              {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [code](const Range& r) { return code >= r.first && code <= r.last; });
}

}  // namespace

size_t character_at(absl::string_view text, size_t at, uint32_t* code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || at + length > text.size()) return 0;
  *code = length == 1 ? first : first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (byte(i) & 0x3fu);
  }
  // Longer than it need be, half of a pair of UTF-16, or beyond the last one: JSON and Prometheus refuse these.
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (*code < least[length] || (*code >= 0xd800 && *code <= 0xdfff) || *code > 0x10ffff) return 0;
  return length;
}

std::string printable(absl::string_view text) {
  // Most names.
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t length = character_at(text, at, &code);
    if (length == 0 || is_hidden(code))
      out += '?';
    else
      out.append(text.data() + at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace ccld::decision
