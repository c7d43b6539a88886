// Middle values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ccld::decision::whatif {

// Of at least one value; of an even number the larger of the two.
inline double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Likewise; of an even number the smaller one.
inline double lower_middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace ccld::decision::whatif
