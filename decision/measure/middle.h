// Middle values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ccld::decision {

// Of an even number the mean of the two; of nothing: 0. Reorders.
template <class Number>
double median(std::vector<Number>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (static_cast<double>(*middle) + *std::max_element(values.begin(), middle)) / 2;
}

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

// Of normally distributed values of which half are no further from their middle than this. 1.4826 = 1 / 0.6745, within
// which half of a standard normal distribution lies.
constexpr double standard_deviation(double middle_distance) { return 1.4826 * middle_distance; }

}  // namespace ccld::decision
