#include "decision/iteration/period.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

constexpr double same_kinds_min = 0.95;  // kinds repeat exactly, but for an operation now and then
constexpr double same_rhythm_min = 0.6;  // intervals have noise
constexpr size_t repeats_min = 3;

// A kind is a name, not a quantity: two series agree where the names do.
double agreement(const std::vector<uint16_t>& kinds, size_t lag) {
  size_t same = 0;
  for (size_t i = lag; i < kinds.size(); ++i) same += kinds[i] == kinds[i - lag];
  return static_cast<double>(same) / static_cast<double>(kinds.size() - lag);
}

}  // namespace

std::vector<double> autocorrelation(const std::vector<double>& x, size_t lag_max) {
  std::vector<double> out;
  if (x.empty()) return out;
  double mean = 0, variance = 0;
  for (double v : x) mean += v;
  mean /= static_cast<double>(x.size());
  for (double v : x) variance += (v - mean) * (v - mean);
  for (size_t lag = 0; lag <= std::min(lag_max, x.size() - 1); ++lag) {
    double sum = 0;
    for (size_t i = lag; i < x.size(); ++i) sum += (x[i] - mean) * (x[i - lag] - mean);
    // Fewer products at long lags: they count as much.
    const double scale = static_cast<double>(x.size()) / static_cast<double>(x.size() - lag);
    out.push_back(variance > 0 ? sum / variance * scale : 1);
  }
  return out;
}

size_t find_period(const std::vector<uint16_t>& kinds, const std::vector<double>& intervals_ns) {
  const size_t n = std::min(kinds.size(), intervals_ns.size());
  if (n < repeats_min * 2) return 0;
  const size_t lag_max = n / repeats_min;
  if (!std::equal(kinds.begin() + 1, kinds.begin() + static_cast<std::ptrdiff_t>(n), kinds.begin())) {
    for (size_t lag = 1; lag <= lag_max; ++lag)
      if (agreement(kinds, lag) >= same_kinds_min) return lag;
    return 0;
  }
  // One kind only: long and short intervals alternate.
  std::vector<double> rhythm;
  for (size_t i = 0; i < n; ++i) rhythm.push_back(std::log(std::max(intervals_ns[i], 1.0)));
  const std::vector<double> acf = autocorrelation(rhythm, lag_max);
  for (size_t lag = 2; lag < acf.size(); ++lag) {
    const bool peak = acf[lag] >= acf[lag - 1] && (lag + 1 == acf.size() || acf[lag] >= acf[lag + 1]);
    if (peak && acf[lag] >= same_rhythm_min && acf[1] < same_rhythm_min) return lag;
  }
  return 1;
}

}  // namespace ccld::decision
