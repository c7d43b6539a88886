// JSON that nobody means well with.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ccld::test {

// Valid, and so deep: parsers and printers that call themselves for each level run out of stack at some 50,000.
inline std::string nested(size_t depth, std::string_view open = "[", std::string_view close = "]") {
  std::string text;
  text.reserve(depth * (open.size() + close.size()) + 1);
  for (size_t i = 0; i < depth; ++i) text += open;
  if (open.back() == ':') text += '1';
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

}  // namespace ccld::test
