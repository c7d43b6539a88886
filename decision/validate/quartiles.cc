#include "decision/validate/quartiles.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision::validate {

Quartiles quartiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - std::floor(place));
  };
  return {at(0.25), at(0.5), at(0.75)};
}

}  // namespace ccld::decision::validate
