// Numbers for people. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace ccld::decision {

// 1048576 -> "1,048,576"
inline std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace ccld::decision
