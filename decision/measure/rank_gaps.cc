#include "decision/measure/rank_gaps.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {

double median(std::vector<float>& v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  if (v.size() % 2 == 1) return *middle;
  return (static_cast<double>(*middle) + *std::max_element(v.begin(), middle)) / 2;
}

RankGaps gaps_of(const Communicator& comm, const RoundEntry& e, const std::vector<double>& gap_ns,
                 bool from_durations) {
  const size_t n = e.cells.size();
  RankGaps out{std::vector<float>(n, NAN), std::vector<float>(n, NAN), INFINITY, -INFINITY, INFINITY, -INFINITY};
  bool any = false;
  for (size_t r = 0; r < n; ++r) {
    const RoundCell& c = e.cells[r];
    if (std::isnan(gap_ns[r])) continue;
    const RankModel* m = comm.rank(Rank{static_cast<int32_t>(r)});
    const bool shares_gpu = m && m->process && m->process->memberships.size() > 1;
    if (c.gap_torn || (from_durations ? shares_gpu : c.gap_ns < 0)) {
      out.torn = true;
      continue;
    }
    double own = gap_ns[r], last = own;
    if (shares_gpu) {
      const KernelLog& kernels = m->process->kernels;
      const uint64_t from_ns = c.begin_device_ns - static_cast<uint64_t>(c.gap_ns);
      own -= static_cast<double>(kernels.busy_in_others_ns(comm.uid(), m->cuda_device, from_ns, c.begin_device_ns));
      last = static_cast<double>(c.begin_device_ns -
                                 kernels.ended_in_others_ns(comm.uid(), m->cuda_device, from_ns, c.begin_device_ns));
    }
    any = true;
    out.own_ns[r] = static_cast<float>(own);
    out.last_ns[r] = static_cast<float>(last);
    out.own_least_ns = std::min(out.own_least_ns, own);
    out.own_most_ns = std::max(out.own_most_ns, own);
    out.least_ns = std::min(out.least_ns, gap_ns[r]);
    out.most_ns = std::max(out.most_ns, gap_ns[r]);
  }
  if (!any) out.own_least_ns = out.own_most_ns = out.least_ns = out.most_ns = 0;
  return out;
}

}  // namespace ccld::decision
