// What must hold whatever the input is. A failure ends the process, as a fuzzer wants it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "decision/report/text_format.h"

#define FUZZ_REQUIRE(condition)                                                           \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace ccld::fuzz {

// Nothing in it moves a terminal's cursor, turns or hides text, or is no UTF-8.
inline bool is_harmless(std::string_view text) {
  size_t begin = 0;
  for (;;) {  // line feeds are ours
    const size_t end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end - begin);
    if (decision::report::printable({line.data(), line.size()}) != line) return false;
    if (end == std::string_view::npos) return true;
    begin = end + 1;
  }
}

}  // namespace ccld::fuzz
