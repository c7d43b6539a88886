#include "test/sim/faults/losses.h"

#include <algorithm>
#include <map>

namespace ccld::sim {
namespace {

// In kernels of its other communicators, which run one after the other.
double busy_elsewhere_ns(const Job& job, int process, int comm, Instant from, Instant to) {
  double busy = 0;
  const auto add = [&](Instant begin, Instant end) {
    busy += static_cast<double>(std::max<Instant>(0, std::min(end, to) - std::max(begin, from)));
  };
  for (CommKind kind : {CommKind::world, CommKind::tensor, CommKind::pipeline, CommKind::data, CommKind::expert}) {
    const int other = job.layout().comm_of(process, kind);
    if (other < 0 || other == comm) continue;
    const Timeline& line = job.timeline(other, job.layout().rank_in(other, process));
    for (const OpRecord& o : line.ops) add(o.begin, o.end);
    for (const CallRecord& c : line.calls) add(c.begin, c.end);
  }
  return busy;
}

struct Sum {
  double longest_ns = 0;  // of a rank's kernel
  double skew_ns = 0;     // by how much ranks differ in what they did since the operation before, as far as others wait
  double together_ns = 0;  // from the last begin to the last end
  int count = 0;
};
using Sums = std::map<int, Sum>;  // by shape

Sums sums_of(int comm, const Span& span) {
  const auto& [job, from, to] = span;
  const CommSpec& spec = job.layout().comms()[comm];
  Sums sums;
  for (size_t i = 1;; ++i) {
    double least = 0, most = 0, longest = 0, soonest = 0, latest = 0;
    Instant begin = 0, end = 0;
    for (int r = 0; r < spec.ranks(); ++r) {
      const auto& ops = job.timeline(comm, r).ops;
      if (i >= ops.size()) {
        end = never;
        break;
      }
      const OpRecord &op = ops[i], &before = ops[i - 1];
      begin = std::max(begin, op.begin);
      end = std::max(end, op.end);
      if (end >= never) break;
      const auto gap = static_cast<double>(op.begin - before.end);
      const double own = gap - busy_elsewhere_ns(job, spec.members[r], comm, before.end, op.begin);
      soonest = r == 0 ? gap : std::min(soonest, gap);
      latest = r == 0 ? gap : std::max(latest, gap);
      least = r == 0 ? own : std::min(least, own);
      most = r == 0 ? own : std::max(most, own);
      longest = std::max(longest, static_cast<double>(op.end - op.begin));
    }
    if (end >= to) break;
    if (end < from) continue;
    Sum& sum = sums[job.timeline(comm, 0).ops[i].shape->index];
    sum.longest_ns += longest;
    sum.skew_ns += std::min(most - least, latest - soonest);  // who waited elsewhere does not wait here
    sum.together_ns += static_cast<double>(end - begin);
    ++sum.count;
  }
  return sums;
}

}  // namespace

Losses losses_of(const Job& job, int comm, Instant from, Instant onset, Instant to) {
  return losses_of(comm, {job, from, onset}, {job, onset, to});
}

Losses losses_of(int comm, const Span& healthy_span, const Span& slow_span) {
  const Sums healthy_sums = sums_of(comm, healthy_span);
  Losses l;
  for (const auto& [shape, slow] : sums_of(comm, slow_span)) {
    l.operations_per_s += slow.count / (static_cast<double>(slow_span.to - slow_span.from) / 1e9);
    const auto known = healthy_sums.find(shape);
    if (known == healthy_sums.end()) continue;
    const Sum& healthy = known->second;
    const double times = static_cast<double>(slow.count) / healthy.count;
    l.slowdown = std::max(l.slowdown, slow.longest_ns / (times * healthy.longest_ns));
    l.computation_ns += std::max(0.0, slow.skew_ns - times * healthy.skew_ns);
    l.communication_ns += std::max(0.0, slow.together_ns - times * healthy.together_ns);
  }
  return l;
}

}  // namespace ccld::sim
