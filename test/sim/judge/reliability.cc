#include "test/sim/judge/reliability.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/analysis/slow_confidence.h"

namespace ccld::sim {

using namespace decision;

namespace {

constexpr double bin_width = 0.05;
constexpr int fitting_rounds = 200;  // it settles in some twenty

bool is_slow(const Word& w) { return w.fault >= FaultClass::s1_computation_slow; }

struct Count {
  uint64_t all = 0, right = 0;
  double said = 0;
  void add(const Word& w) { ++all, right += w.right, said += w.confidence; }
  std::string text() const {
    return absl::StrFormat("%9d %7d %6.1f %%", all, right, 100 * static_cast<double>(right) / static_cast<double>(all));
  }
};

std::string by_confidence(const std::vector<Word>& words, bool slow) {
  std::map<int, Count> bins;
  Count all;
  for (const Word& w : words) {
    if (is_slow(w) != slow) continue;
    bins[std::min(19, static_cast<int>(w.confidence / bin_width + 1e-9))].add(w);
    all.add(w);
  }
  if (all.all == 0) return "";
  std::string out =
      absl::StrFormat("  %-34s incidents   right             said\n", slow ? "confidence of slowness" : "of the rest");
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin)
    absl::StrAppendFormat(&out, "  %.2f to %.2f%22s %s %8.1f %%\n", bin->first * bin_width,
                          (bin->first + 1) * bin_width, "", bin->second.text(),
                          100 * bin->second.said / static_cast<double>(bin->second.all));
  absl::StrAppendFormat(&out, "  %-34s %s %8.1f %%\n", "all", all.text(),
                        100 * all.said / static_cast<double>(all.all));
  return out;
}

}  // namespace

void Reliability::add(const std::vector<Word>& words) { words_.insert(words_.end(), words.begin(), words.end()); }

std::vector<double> Reliability::fitting() const {
  const size_t rows = slow_confidences().size();
  std::vector<double> fits(rows, 0.9);
  // One row after the other and half the way: what is only told together, or twice, would overshoot for ever.
  for (int round = 0; round < fitting_rounds; ++round) {
    for (size_t row = 0; row < rows; ++row) {
      double right = 1, expected = 2 * fits[row];
      for (const Word& w : words_) {
        if (std::find(w.rows.begin(), w.rows.end(), row) == w.rows.end()) continue;
        double product = 1;
        for (size_t other : w.rows) product *= fits[other];
        right += w.right, expected += product;
      }
      fits[row] = std::min(1.0, fits[row] * std::sqrt(right / expected));
    }
  }
  return fits;
}

std::string Reliability::text() const {
  std::string out = absl::StrCat(by_confidence(words_, true), by_confidence(words_, false));
  const std::vector<double> fits = fitting();
  std::vector<Count> with(fits.size()), alone(fits.size());
  for (const Word& w : words_)
    for (size_t row : w.rows) {
      with[row].add(w);
      if (w.rows.size() == 1) alone[row].add(w);
    }
  bool any = false;
  for (size_t row = 0; row < fits.size(); ++row) {
    if (with[row].all == 0) continue;
    if (!std::exchange(any, true))
      absl::StrAppendFormat(&out, "  %-34s incidents   right            alone   right   says  fits\n",
                            "causes of slowness, told by");
    const SlowConfidence& r = slow_confidences()[row];
    absl::StrAppendFormat(&out, "  %-34s %s %8d %7d   %.2f  %.2f\n",
                          absl::StrCat(name(r.component), " by ", name(r.basis)), with[row].text(), alone[row].all,
                          alone[row].right, r.right, fits[row]);
  }
  return out;
}

}  // namespace ccld::sim
