#include "decision/iteration/change_point.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {
namespace {

constexpr double hazard = 1.0 / 250;   // a change every so many values is expected
constexpr double sure = 0.9;           // probability of a recent change that is believed
constexpr double forget_below = 1e-6;  // runs that are less likely are dropped
constexpr size_t run_before_min = 8;   // a change is one only after a level was known
constexpr double memory = 200;         // values: a level may drift
// Weight of what was believed before, in values.
constexpr double prior_count = 0.1, prior_shape = 1;

// std::lgamma tells the sign through a variable that all threads share.
double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

}  // namespace

double ChangePoints::predictive(const Run& r, double x) const {
  // Normal-inverse-gamma: mean and variance unknown.
  const double count = prior_count + r.count;
  const double center = r.count > 0 ? r.mean : x;  // nothing known: any level is as likely as another
  const double shape = prior_shape + r.count / 2;
  const double scale = prior_shape * typical_ * typical_ + r.sum_squares / 2;
  const double variance = scale * (count + 1) / (shape * count);
  const double freedom = 2 * shape;
  const double t2 = (x - center) * (x - center) / variance;
  return std::exp(log_gamma((freedom + 1) / 2) - log_gamma(freedom / 2)) / std::sqrt(freedom * M_PI * variance) *
         std::pow(1 + t2 / freedom, -(freedom + 1) / 2);
}

std::optional<size_t> ChangePoints::add(double x) {
  if (runs_.empty()) {
    runs_.push_back({1, 0, 0, 0, 0});
    settled_ = 0;
  }
  double changed = 0, sum = 0;
  for (Run& r : runs_) {
    const double p = r.probability * predictive(r, x);
    changed += p * hazard;
    r.probability = p * (1 - hazard);
    const double off = x - r.mean;
    if (r.count >= memory) r.sum_squares *= (memory - 1) / r.count, r.count = memory - 1;
    r.count += 1;
    r.mean += off / r.count;
    r.sum_squares += off * (x - r.mean);
    ++r.length;
    sum += r.probability;
  }
  // A change before this value: it is the first of its level.
  runs_.insert(runs_.begin(), {changed, 1, x, 0, 1});
  sum += changed;
  if (!(sum > 0)) {
    runs_.assign(1, {1, 1, x, 0, 1});
    settled_ = 1;
    return std::nullopt;
  }
  for (Run& r : runs_) r.probability /= sum;
  std::erase_if(runs_, [](const Run& r) { return r.probability < forget_below; });
  while (runs_.size() > runs_max)
    runs_.erase(std::min_element(runs_.begin() + 1, runs_.end(),
                                 [](const Run& a, const Run& b) { return a.probability < b.probability; }));
  const auto likeliest = std::max_element(runs_.begin(), runs_.end(),
                                          [](const Run& a, const Run& b) { return a.probability < b.probability; });
  double recent = 0;
  for (const Run& r : runs_)
    if (r.length < settled_) recent += r.probability;
  std::optional<size_t> change;
  if (settled_ >= run_before_min && likeliest->length < settled_ && recent >= sure) change = likeliest->length;
  // The settled level goes on, or the new one is settled.
  if (change || likeliest->length > settled_ || settled_ < run_before_min)
    settled_ = likeliest->length;
  else
    ++settled_;
  return change;
}

}  // namespace ccld::decision
