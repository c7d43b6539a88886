// How many operations of a communicator make one iteration: the lag at which the sequence of operations repeats itself.
// (Autocorrelation of the calls, as in the fail-slow tracking of hybrid-parallel training; no help from the framework.)
//
// Contract: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccld::decision {

// Autocorrelation at lags 0 .. lag_max; all 1 if the series never changes.
std::vector<double> autocorrelation(const std::vector<double>& series, size_t lag_max);

// `kinds`: what each operation is, equal numbers for equal operations; `intervals_ns`: from the begin of the operation
// before it. The kinds decide; where hardly any differs, the rhythm of the intervals does. 0: no period is seen at
// least three times. 1: every operation is like the others.
size_t find_period(const std::vector<uint16_t>& kinds, const std::vector<double>& intervals_ns);

}  // namespace ccld::decision
