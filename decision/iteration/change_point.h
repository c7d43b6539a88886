// Where a series of iteration times changes its level, online. (Bayesian online change point detection: Adams and
// MacKay's recursion over run lengths, with a Student-t predictive of unknown mean and variance.)
//
// Contract: plain state, deterministic; constant time and memory for each value (runs_max).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ccld::decision {

class ChangePoints {
 public:
  // `typical_deviation`: what is believed of the noise before anything was seen, in the unit of the values.
  explicit ChangePoints(double typical_deviation) : typical_(typical_deviation) {}

  // Returns how many values ago a change began, 1: with this one; nullopt: none that is nearly sure.
  std::optional<size_t> add(double x);
  void restart() { runs_.clear(); }

  static constexpr size_t runs_max = 100;

 private:
  struct Run {
    double probability;
    double count, mean, sum_squares;  // of the values since the change
    size_t length;
  };
  double predictive(const Run&, double x) const;

  double typical_;
  std::vector<Run> runs_;  // by length, shortest first
  size_t settled_ = 0;     // length of the likeliest run so far
};

}  // namespace ccld::decision
