#include "decision/timeline/unreported.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision::timeline {
namespace {

// A kernel that was not reported; common time.
struct Lost {
  const Collective* of = nullptr;
  const OneEnd* other_end = nullptr;
  const Kernel* like = nullptr;  // the same of another rank
  Rank rank;
  double ready_ns = -INFINITY;  // when all else that its end needs had begun; of a Send: by then it has begun
  double end_ns = 0;
};

class Finder {
 public:
  Finder(const Timeline& t, const Matches& m, const Clocks& clocks) : t_(t), m_(m), clocks_(clocks) {}

  // By GPU, in the order in which they were ready.
  std::vector<std::vector<Lost>> find() const {
    std::vector<std::vector<Lost>> out(t_.gpus().size());
    for (const Collective& c : m_.others) {
      if (c.missing.empty()) continue;
      Lost lost = lost_of(c);
      for (Place p : c.missing) {
        lost.rank = kernel(p).rank;
        at(out, p.gpu).push_back(lost);
      }
    }
    const auto usual_ns = usual_transfers();
    for (const OneEnd& e : m_.one_ends) {
      const Kernel& known = kernel(e.known);
      const double begin_ns = clocks_.common_ns(e.known.gpu, known.begin_ns),
                   end_ns = clocks_.common_ns(e.known.gpu, known.end_ns);
      Lost lost;
      lost.other_end = &e;
      lost.like = &known;
      lost.rank = kernel(e.other).rank;
      // A Recv ends after its Send has begun.
      lost.ready_ns = e.known_sends ? begin_ns : end_ns;
      lost.end_ns = end_ns;
      if (const auto it = usual_ns.find({e.known.gpu, e.other.gpu}); e.known_sends && it != usual_ns.end())
        lost.end_ns = begin_ns + it->second;
      at(out, e.other.gpu).push_back(lost);
    }
    for (auto& lost : out)
      std::sort(lost.begin(), lost.end(), [](const Lost& a, const Lost& b) { return a.ready_ns < b.ready_ns; });
    return out;
  }

  // Puts them between the reported kernels of a GPU.
  std::vector<Unreported> place(int gpu, const std::vector<Lost>& lost, const std::vector<int>& order) const {
    std::vector<Unreported> out;
    const std::vector<Kernel>& kernels = at(t_.gpus(), gpu).kernels;
    std::vector<uint64_t> running_until_ns;
    size_t next = 0;
    uint64_t free_ns = 0;
    for (const Lost& k : lost) {
      const uint64_t ready_ns = device_ns(gpu, k.ready_ns);
      for (; next < order.size() && at(kernels, order[next]).begin_ns < ready_ns; ++next)
        if (!at(kernels, order[next]).earlier) running_until_ns.push_back(at(kernels, order[next]).end_ns);
      std::erase_if(running_until_ns, [&](uint64_t end_ns) {
        if (end_ns > ready_ns) return false;
        free_ns = std::max(free_ns, end_ns);
        return true;
      });
      if (free_ns == 0) continue;
      // A Send may have begun long before its Recv ended: then what follows it may have, too.
      const bool sends = k.other_end && !k.other_end->known_sends;
      const uint64_t last_ns = at(kernels, order.back()).begin_ns;
      if (last_ns < (sends ? free_ns : ready_ns)) continue;
      Unreported u;
      u.of = k.of, u.other_end = k.other_end;
      u.kernel = *k.like;
      u.kernel.rank = k.rank;
      u.kernel.launch_monotonic_ns = 0;
      u.kernel.call_count = 0;
      u.kernel.begin_ns = std::min(free_ns, ready_ns);
      // Whatever began on this GPU after that came after it.
      const uint64_t most_ns = next == order.size() ? UINT64_MAX : at(kernels, order[next]).begin_ns;
      u.kernel.end_ns = std::max(u.kernel.begin_ns, std::min(device_ns(gpu, k.end_ns), most_ns));
      free_ns = std::max(free_ns, u.kernel.end_ns);
      out.push_back(u);
    }
    return out;
  }

 private:
  const Kernel& kernel(Place p) const { return kernel_at(t_, p); }
  uint64_t device_ns(int gpu, double common_ns) const {
    const auto g = static_cast<size_t>(gpu);
    return clocks_.origin_ns[g] + static_cast<uint64_t>(std::llround(common_ns - clocks_.shift_ns[g]));
  }
  Lost lost_of(const Collective& c) const {
    Lost lost;
    lost.of = &c;
    std::vector<double> ends_ns;
    for (Place p : c.members) {
      lost.like = &kernel(p);
      lost.ready_ns = std::max(lost.ready_ns, clocks_.common_ns(p.gpu, lost.like->begin_ns));
      ends_ns.push_back(clocks_.common_ns(p.gpu, lost.like->end_ns));
    }
    lost.end_ns = std::max(lost.ready_ns, middle(std::move(ends_ns)));
    return lost;
  }
  // By sender and receiver: from the begin of the Send to the end of the Recv.
  std::map<std::pair<int, int>, double> usual_transfers() const {
    std::map<std::pair<int, int>, std::vector<double>> all_ns;
    if (!m_.one_ends.empty())
      for (const Pair& p : m_.pairs) {
        const double begin_ns = std::max(clocks_.common_ns(p.send.gpu, kernel(p.send).begin_ns),
                                         clocks_.common_ns(p.recv.gpu, kernel(p.recv).begin_ns));
        all_ns[{p.send.gpu, p.recv.gpu}].push_back(clocks_.common_ns(p.recv.gpu, kernel(p.recv).end_ns) - begin_ns);
      }
    std::map<std::pair<int, int>, double> out;
    for (auto& [ends, ns] : all_ns) out[ends] = middle(std::move(ns));
    return out;
  }

  const Timeline& t_;
  const Matches& m_;
  const Clocks& clocks_;
};

}  // namespace

std::vector<std::vector<Unreported>> find_unreported(const Timeline& t, const Matches& m, const Clocks& clocks,
                                                     const std::vector<std::vector<int>>& order) {
  const Finder finder(t, m, clocks);
  const std::vector<std::vector<Lost>> lost = finder.find();
  std::vector<std::vector<Unreported>> out;
  for (size_t gpu = 0; gpu < order.size(); ++gpu)
    out.push_back(finder.place(static_cast<int>(gpu), lost[gpu], order[gpu]));
  return out;
}

}  // namespace ccld::decision::timeline
