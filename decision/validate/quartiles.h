// The middle of repetitions and how they spread, robust against single slow ones. Threads: any.
#pragma once

#include <utility>
#include <vector>

namespace ccld::decision::validate {

struct Quartiles {
  double low = 0, middle = 0, high = 0;

  // How much longer the middle takes than the fastest quarter, as a part of it.
  double spread() const { return low > 0 ? middle / low - 1 : 0; }
};

// By interpolation between neighbours; all 0 if there are no values.
Quartiles quartiles_of(std::vector<double> values);
inline double middle_of(std::vector<double> values) { return quartiles_of(std::move(values)).middle; }

}  // namespace ccld::decision::validate
