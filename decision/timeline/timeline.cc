#include "decision/timeline/timeline.h"

#include <algorithm>

#include "schemas/wire/link_steps.h"

namespace ccld::decision::timeline {
namespace {

// Of all collectives of a window: 1,024 for each of 512 GPUs (a ring of 16 channels: 32 operations), 48 MiB. Of all
// Sends and Recvs likewise.
constexpr size_t link_rows_max = 1 << 19;

void note_launch(Gpu& g, uint64_t begin_ns, uint64_t launch_ns) {
  if (launch_ns != 0) g.launch_least_ns = std::min(g.launch_least_ns, static_cast<int64_t>(begin_ns - launch_ns));
}

// What was known to be at most so much, later on.
int64_t drifted_ns(int64_t most_ns, double drift_ns) {
  return most_ns == INT64_MAX ? most_ns : most_ns + static_cast<int64_t>(drift_ns);
}

size_t in_this_window(const Gpu& g) { return g.kernels.size() - g.earlier; }

// Copies the kernel that ended last, with its calls.
void keep_last(const Gpu& from, Gpu& to) {
  if (from.full) return;
  const auto last =
      std::max_element(from.kernels.begin() + static_cast<std::ptrdiff_t>(from.earlier), from.kernels.end(),
                       [](const Kernel& a, const Kernel& b) { return a.end_ns < b.end_ns; });
  if (last == from.kernels.end()) return;
  to.before = *last;
  to.before->earlier = true;
  to.before->first_call = static_cast<uint32_t>(to.calls.size());
  for (uint32_t c = 0; c < last->call_count; ++c) to.calls.push_back(at(from.calls, last->first_call + c));
}

// One that doubles would leave a tenth of what the service holds of a rank empty.
template <class T>
void add_tightly(std::vector<T>& to, const T& value) {
  constexpr size_t least = 8;
  if (to.size() == to.capacity()) to.reserve(to.size() + std::max(least, to.size() / 8));
  to.push_back(value);
}

bool is_timed(uint8_t flags, uint64_t begin_ns, uint64_t end_ns) {
  return (flags & (round_no_kernel | round_lapped | round_not_measured | round_aborted)) == 0 && begin_ns != 0 &&
         end_ns >= begin_ns;
}

}  // namespace

Gpu* Timeline::gpu(GpuKey key) {
  if (!only_.empty() && !only_.contains(key)) return others_report_ = true, nullptr;
  if (left_out_ > 0) return ++left_out_, nullptr;  // what is not whole is not judged
  const auto [it, added] = index_.try_emplace(key, gpus_.size());
  if (added) {
    if (gpus_in_all_ >= settings_.whatif_gpus_max) {
      index_.erase(it);
      return ++left_out_, nullptr;
    }
    ++gpus_in_all_;
    gpus_.emplace_back().key = key;
  }
  return &gpus_[it->second];
}

bool Timeline::take_room(Gpu& g) {
  g.full |= in_this_window(g) >= kernels_of_gpu_max_ || kernels_ >= settings_.whatif_kernels_max;
  if (g.full) return false;
  ++kernels_;
  return true;
}

void Timeline::add(GpuKey key, const Rounds& m, int ranks) {
  Gpu* const g = gpu(key);
  if (!g) return;
  // Stages of replays have the number of the recorded call: only those of the call itself are kept.
  absl::flat_hash_set<uint64_t> kept;
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
    k.ranks = ranks;
    note_launch(*g, k.begin_ns, k.launch_monotonic_ns);
    add_tightly(g->kernels, k);
    if (r.replay == 0 && !m.links.empty()) kept.insert(r.op.value);
  }
  for (const LinkStages& l : m.links) {
    if (!kept.contains(l.op.value) || wire::link_priority(l.op.value) < link_priority_min_) continue;
    links_[{m.comm, l.op}].emplace_back(m.rank, l);
    if (++link_rows_ > link_rows_max) leave_out_links();
  }
}

// What remains is of the operations that probes prefer as well, so that both ends of a link are known.
void Timeline::leave_out_links() {
  ++link_priority_min_;
  absl::erase_if(links_, [&](const auto& entry) {
    if (wire::link_priority(entry.first.second.value) >= link_priority_min_) return false;
    link_rows_ -= entry.second.size();
    return true;
  });
}

void Timeline::add(GpuKey key, const P2pRounds& m) {
  Gpu* const g = gpu(key);
  if (!g) return;
  for (const P2pRound& r : m.rounds) {
    if (!is_timed(r.flags, r.begin_device_ns, r.end_device_ns)) continue;
    const bool same_kernel = !g->kernels.empty() && !g->kernels.back().earlier && g->kernels.back().op.value == 0 &&
                             g->kernels.back().comm == m.comm && g->kernels.back().begin_ns == r.begin_device_ns;
    if (!same_kernel) {
      if (!take_room(*g)) break;
      Kernel k;
      k.begin_ns = r.begin_device_ns, k.end_ns = r.end_device_ns;
      k.launch_monotonic_ns = r.replay == 0 ? r.launch_monotonic_ns : 0;
      k.comm = m.comm, k.rank = m.rank, k.replay = r.replay;
      k.first_call = static_cast<uint32_t>(g->calls.size());
      note_launch(*g, k.begin_ns, k.launch_monotonic_ns);
      add_tightly(g->kernels, k);
    }
    ++g->kernels.back().call_count;
    add_tightly(g->calls, {r.peer, r.direction, r.pair_seq, r.bytes});
  }
  for (const LinkStages& l : m.links) {
    if (l.net_device < 0 || l.peer < 0) continue;
    if (++rows_of_calls_ > link_rows_max) break;
    const bool sends = l.direction == abi::Direction::send;
    const Rank peer{l.peer};
    links_of_calls_[{m.comm, sends ? m.rank : peer, sends ? peer : m.rank, l.op.value}].emplace_back(m.rank, l);
  }
}

const std::vector<std::pair<Rank, LinkStages>>* Timeline::links(CommUid comm, OpSeq op) const {
  const auto it = links_.find({comm, op});
  return it == links_.end() ? nullptr : &it->second;
}

const std::vector<std::pair<Rank, LinkStages>>* Timeline::links(CommUid comm, Rank sender, Rank receiver,
                                                                uint64_t pair_seq) const {
  const auto it = links_of_calls_.find({comm, sender, receiver, pair_seq});
  return it == links_of_calls_.end() ? nullptr : &it->second;
}

Timeline::CallKey Timeline::key_of(const Kernel& k, const Call& c) {
  const bool sends = c.direction == abi::Direction::send;
  return {k.comm, sends ? k.rank : c.peer, sends ? c.peer : k.rank, c.pair_seq};
}

size_t Timeline::kernels_of_most() const {
  std::vector<size_t> counts;
  for (const Gpu& gpu : gpus_) counts.push_back(in_this_window(gpu));
  if (counts.empty()) return 0;
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2), counts.end());
  return counts[counts.size() / 2];
}

void Timeline::keep(std::vector<Gpu> gpus) {
  gpus_in_all_ -= gpus_.size() - gpus.size();
  gpus_ = std::move(gpus);
  index_.clear();
  for (size_t i = 0; i < gpus_.size(); ++i) index_.emplace(gpus_[i].key, i);
  std::erase_if(clock_pairs_, [&](const ClockPair& p) { return !index_.contains(p.a) || !index_.contains(p.b); });
}

void Timeline::look_at(absl::flat_hash_set<GpuKey> only) {
  only_ = std::move(only);
  if (only_.empty()) return;
  std::vector<Gpu> kept;
  for (Gpu& g : gpus_)
    if (only_.contains(g.key)) kept.push_back(std::move(g));
  keep(std::move(kept));
}

void Timeline::clear(Nanoseconds age_ns, const std::vector<OpenEnd>& open_ends) {
  const double drift_ns = 1e-6 * settings_.clock_drift_max_ppm * static_cast<double>(age_ns);
  std::vector<Gpu> kept;
  absl::flat_hash_map<CallKey, LinkRows> links_of_open;
  auto open = open_ends.begin();
  for (size_t i = 0; i < gpus_.size(); ++i) {
    const Gpu& of = gpus_[i];
    if (in_this_window(of) == 0) continue;
    Gpu g;
    g.key = of.key;
    g.launch_least_ns = drifted_ns(of.launch_least_ns, drift_ns);
    for (; open != open_ends.end() && open->gpu <= static_cast<int>(i); ++open) {
      if (open->gpu < static_cast<int>(i)) continue;
      Kernel k = at(of.kernels, open->kernel);
      k.earlier = true, k.first_call = static_cast<uint32_t>(g.calls.size()), k.call_count = 1;
      g.kernels.push_back(k);
      g.calls.push_back(open->call);
      if (const auto it = links_of_calls_.find(key_of(k, open->call)); it != links_of_calls_.end())
        links_of_open.insert(*it);
    }
    g.earlier = g.kernels.size();
    if (left_out_ == 0) keep_last(of, g);
    kept.push_back(std::move(g));
  }
  keep(std::move(kept));
  for (ClockPair& p : clock_pairs_) p.doubt_ns += 2 * drift_ns;
  kernels_ = 0;
  kernels_of_gpu_max_ =
      std::min<size_t>(kernels_of_gpu_most, settings_.whatif_kernels_max / std::max<size_t>(1, gpus_.size()));
  links_.clear();
  link_rows_ = 0, link_priority_min_ = 0;
  links_of_calls_ = std::move(links_of_open);
  rows_of_calls_ = 0;
  for (const auto& [key, rows] : links_of_calls_) rows_of_calls_ += rows.size();
  left_out_ = 0;
  others_report_ = false;
}

}  // namespace ccld::decision::timeline
