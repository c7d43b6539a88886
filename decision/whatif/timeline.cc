#include "decision/whatif/timeline.h"

#include <algorithm>

namespace ccld::decision::whatif {
namespace {

// Clocks of a host and of its GPU drift apart by no more.
constexpr int64_t drift_ns_per_s = 20'000;
// Of one operation: a ring of 64 channels over a few hundred ranks.
constexpr size_t link_rows_max = 1 << 16;

void note_launch(Gpu& g, uint64_t begin_ns, uint64_t launch_ns) {
  if (launch_ns != 0) g.launch_least_ns = std::min(g.launch_least_ns, static_cast<int64_t>(begin_ns - launch_ns));
}

bool is_timed(uint8_t flags, uint64_t begin_ns, uint64_t end_ns) {
  return (flags & (round_no_kernel | round_lapped | round_not_measured | round_aborted)) == 0 && begin_ns != 0 &&
         end_ns >= begin_ns;
}

}  // namespace

Gpu* Timeline::gpu(GpuKey key) {
  if (left_out_ > 0) return ++left_out_, nullptr;  // what is not whole is not judged
  const auto [it, added] = index_.try_emplace(key, gpus_.size());
  if (added) {
    if (gpus_in_all_ >= settings_.whatif_gpus_max) {
      index_.erase(it);
      return ++left_out_, nullptr;
    }
    ++gpus_in_all_;
    gpus_.emplace_back();
  }
  return &gpus_[it->second];
}

bool Timeline::take_room(const Gpu& g) {
  if (g.kernels.size() >= kernels_of_gpu_max_ || kernels_ >= settings_.whatif_kernels_max) return false;
  ++kernels_;
  return true;
}

void Timeline::add(GpuKey key, const Rounds& m) {
  Gpu* const g = gpu(key);
  if (!g) return;
  for (const Round& r : m.rounds) {
    if (!r.has_device_times() || !is_timed(r.flags, r.begin_device_ns, r.end_device_ns)) continue;
    // Several operations may share a kernel: the first of them stands for it.
    if ((r.flags & round_shared_kernel) != 0 && !g->kernels.empty() && g->kernels.back().comm == m.comm &&
        g->kernels.back().begin_ns == r.begin_device_ns && g->kernels.back().end_ns == r.end_device_ns)
      continue;
    if (!take_room(*g)) break;
    Kernel k;
    k.begin_ns = r.begin_device_ns, k.end_ns = r.end_device_ns;
    k.launch_monotonic_ns = r.replay == 0 ? r.launch_monotonic_ns : 0;
    k.comm = m.comm, k.rank = m.rank, k.op = r.op, k.replay = r.replay;
    k.signature = r.signature;
    note_launch(*g, k.begin_ns, k.launch_monotonic_ns);
    g->kernels.push_back(k);
  }
  for (const LinkStages& l : m.links) {
    auto& rows = links_[{m.comm, l.op}];
    if (rows.size() < link_rows_max) rows.emplace_back(m.rank, l);
  }
}

void Timeline::add(GpuKey key, const P2pRounds& m) {
  Gpu* const g = gpu(key);
  if (!g) return;
  for (const P2pRound& r : m.rounds) {
    if (!is_timed(r.flags, r.begin_device_ns, r.end_device_ns)) continue;
    const bool same_kernel = !g->kernels.empty() && g->kernels.back().op.value == 0 &&
                             g->kernels.back().comm == m.comm && g->kernels.back().begin_ns == r.begin_device_ns;
    if (!same_kernel) {
      if (!take_room(*g)) break;
      Kernel k;
      k.begin_ns = r.begin_device_ns, k.end_ns = r.end_device_ns;
      k.launch_monotonic_ns = r.replay == 0 ? r.launch_monotonic_ns : 0;
      k.comm = m.comm, k.rank = m.rank, k.replay = r.replay;
      k.first_call = static_cast<uint32_t>(g->calls.size());
      note_launch(*g, k.begin_ns, k.launch_monotonic_ns);
      g->kernels.push_back(k);
    }
    ++g->kernels.back().call_count;
    g->calls.push_back({r.peer, r.direction, r.pair_seq, r.bytes});
  }
}

void Timeline::add(GpuKey key, const InFlight& m) {
  const auto it = index_.find(key);
  if (it == index_.end() || m.proxies.empty() || m.proxy_tick_age_ms == age_never) return;
  gpus_[it->second].proxy_age_ms += m.proxy_tick_age_ms;
  ++gpus_[it->second].proxy_samples;
}

const std::vector<std::pair<Rank, LinkStages>>* Timeline::links(CommUid comm, OpSeq op) const {
  const auto it = links_.find({comm, op});
  return it == links_.end() ? nullptr : &it->second;
}

size_t Timeline::kernels_of_most() const {
  std::vector<size_t> counts;
  for (const Gpu& gpu : gpus_) counts.push_back(gpu.kernels.size());
  if (counts.empty()) return 0;
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2), counts.end());
  return counts[counts.size() / 2];
}

void Timeline::clear(Nanoseconds age_ns) {
  std::vector<Gpu> kept;
  std::vector<GpuKey> keys(gpus_.size());
  for (const auto& [key, i] : index_) keys[i] = key;
  absl::flat_hash_map<GpuKey, size_t> index;
  for (size_t i = 0; i < gpus_.size(); ++i) {
    if (gpus_[i].kernels.empty()) continue;
    Gpu g;
    if (gpus_[i].launch_least_ns != INT64_MAX)
      g.launch_least_ns = gpus_[i].launch_least_ns + age_ns / ns_per_s * drift_ns_per_s;
    index.emplace(keys[i], kept.size());
    kept.push_back(std::move(g));
  }
  gpus_in_all_ -= gpus_.size() - kept.size();
  gpus_ = std::move(kept);
  index_ = std::move(index);
  kernels_ = 0;
  kernels_of_gpu_max_ =
      std::min<size_t>(kernels_of_gpu_most, settings_.whatif_kernels_max / std::max<size_t>(1, gpus_.size()));
  links_.clear();
  left_out_ = 0;
}

}  // namespace ccld::decision::whatif
