#include "decision/advise/micro_batches.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace ccld::decision::advise {
namespace {

// How many micro-batches a replica has done by then; it does one in any case.
uint64_t done_by(const Replica& r, double time, uint64_t total) {
  const double count = std::floor((time - r.fixed) / r.per_micro_batch);
  if (!(count >= 1)) return 1;
  return count >= static_cast<double>(total) ? total : static_cast<uint64_t>(count);
}

uint64_t done_by(const std::vector<Replica>& replicas, double time, uint64_t total) {
  uint64_t sum = 0;
  for (const Replica& r : replicas) sum += done_by(r, time, total);
  return sum;
}

// A time by which no more than all micro-batches are done, and hardly fewer.
double time_before(const std::vector<Replica>& replicas, uint64_t total) {
  double low = 0, high = std::numeric_limits<double>::max();
  for (const Replica& r : replicas) high = std::min(high, r.fixed + static_cast<double>(total) * r.per_micro_batch);
  constexpr int halvings = 60;  // to the last digits of a double
  for (int i = 0; i < halvings; ++i) {
    const double middle = low + (high - low) / 2;
    (done_by(replicas, middle, total) <= total ? low : high) = middle;
  }
  constexpr double rounding = 1e-9;  // a count that is one too high by rounding could never be taken back
  return low * (1 - rounding);
}

}  // namespace

std::vector<uint64_t> assign_micro_batches(const std::vector<Replica>& replicas, uint64_t total) {
  if (replicas.empty() || total < replicas.size()) return {};
  const double time = time_before(replicas, total);
  std::vector<uint64_t> counts;
  uint64_t left = total;
  for (const Replica& r : replicas) counts.push_back(done_by(r, time, total)), left -= counts.back();
  // The next one goes to who would be done with it first: no other choice makes the slowest earlier. Those given so far
  // are the ones that this rule would have given.
  using Next = std::pair<double, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto after_one_more = [&](size_t r) {
    return replicas[r].fixed + static_cast<double>(counts[r] + 1) * replicas[r].per_micro_batch;
  };
  for (size_t r = 0; r < replicas.size(); ++r) next.emplace(after_one_more(r), r);
  for (; left > 0; --left) {
    const size_t r = next.top().second;
    next.pop();
    ++counts[r];
    next.emplace(after_one_more(r), r);
  }
  return counts;
}

double longest(const std::vector<Replica>& replicas, const std::vector<uint64_t>& counts) {
  double time = 0;
  for (size_t r = 0; r < replicas.size() && r < counts.size(); ++r)
    time = std::max(time, replicas[r].fixed + static_cast<double>(counts[r]) * replicas[r].per_micro_batch);
  return time;
}

}  // namespace ccld::decision::advise
