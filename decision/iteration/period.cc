#include "decision/iteration/period.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

constexpr double same_kinds_min = 0.95;  // kinds repeat exactly, but for an operation now and then
// Intervals have noise, and so have rare kinds, if other rare ones come between.
constexpr double same_rhythm_min = 0.6;
constexpr size_t repeats_min = 3;

uint16_t most_common(std::vector<uint16_t> kinds) {
  std::sort(kinds.begin(), kinds.end());
  uint16_t most = 0;
  std::ptrdiff_t count = 0;
  for (auto it = kinds.begin(); it != kinds.end();) {
    const auto next = std::upper_bound(it, kinds.end(), *it);
    if (next - it > count) most = *it, count = next - it;
    it = next;
  }
  return most;
}

// A kind is a name, not a quantity: two series agree where the names do.
struct Agreement {
  double all = 0, rare = 0;  // shares: of the operations, and of those that are not of the most common kind
};
Agreement agreement(const std::vector<uint16_t>& kinds, size_t lag, uint16_t common) {
  size_t same = 0, same_rare = 0, rare = 0;
  for (size_t i = lag; i < kinds.size(); ++i) {
    const bool equal = kinds[i] == kinds[i - lag], is_rare = kinds[i] != common || kinds[i - lag] != common;
    same += equal, rare += is_rare, same_rare += equal && is_rare;
  }
  return {static_cast<double>(same) / static_cast<double>(kinds.size() - lag),
          rare == 0 ? 0 : static_cast<double>(same_rare) / static_cast<double>(rare)};
}

// Where most operations are of one kind, or come in long rows, they agree at any short lag: the others must, too, and
// at no lag beside it more of them.
size_t period_of_kinds(const std::vector<uint16_t>& kinds, uint16_t common, size_t lag_max) {
  Agreement before{1, 1}, now = agreement(kinds, 1, common);
  for (size_t lag = 1; lag <= lag_max; ++lag) {
    const Agreement next = agreement(kinds, lag + 1, common);
    if (now.all >= same_kinds_min && now.rare >= same_rhythm_min && now.all >= before.all && now.all >= next.all)
      return lag;
    before = now, now = next;
  }
  return 0;
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
  const std::vector<uint16_t> known(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(n));
  const uint16_t common = most_common(known);
  const auto others = n - static_cast<size_t>(std::count(known.begin(), known.end(), common));
  if (const size_t lag = others == 0 ? 0 : period_of_kinds(known, common, lag_max)) return lag;
  if (static_cast<double>(others) > (1 - same_kinds_min) * static_cast<double>(n)) return 0;
  // Hardly more than one kind: long and short intervals alternate.
  std::vector<double> rhythm;
  for (size_t i = 0; i < n; ++i) rhythm.push_back(std::log(std::max(intervals_ns[i], 1.0)));
  const std::vector<double> acf = autocorrelation(rhythm, 2 * lag_max);
  for (size_t lag = 2; lag <= lag_max; ++lag) {
    const bool peak = acf[lag] >= acf[lag - 1] && acf[lag] >= acf[lag + 1];
    // Two long intervals may lie anywhere: a third one must come after as long.
    if (peak && std::min(acf[lag], acf[2 * lag]) >= same_rhythm_min && acf[1] < same_rhythm_min) return lag;
  }
  return 1;
}

}  // namespace ccld::decision
