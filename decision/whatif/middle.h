// The middle value, of an even number the larger of the two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ccld::decision::whatif {

// Of at least one value.
inline double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace ccld::decision::whatif
