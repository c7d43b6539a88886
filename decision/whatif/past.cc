#include "decision/whatif/past.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "decision/measure/middle.h"
#include "decision/model/signature.h"

namespace ccld::decision::whatif {
namespace {

constexpr size_t past_entries_max = 1 << 16;
// Of a window: the past is six windows long at least.
constexpr size_t parts_max = 4;

// The kernels of a GPU that are the same work after the same work.
using Work = absl::flat_hash_map<uint64_t, std::vector<int>>;

Work work_of(const Graph& g, const Timeline& t, const Kinds& kinds, size_t gpu, const Settings& settings) {
  Work out;
  for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i) {
    const Node& n = at(g.nodes, i);
    // Whoever is late to a barrier may be so on purpose: it writes a checkpoint.
    if (!n.own_known || is_barrier(n.kernel->signature, settings.barrier_bytes_max)) continue;
    out[work_after(g, t, kinds, i)].push_back(i);
  }
  return out;
}

uint64_t transfer_key(int sender, int receiver, uint64_t bytes, const Timeline& t, const Settings& settings) {
  return absl::HashOf(at(t.gpus(), sender).key, at(t.gpus(), receiver).key, transfer_class(bytes, settings));
}

double known(double ns) { return std::isnan(ns) ? 0 : ns; }

// When the work has changed, all take so much longer, or so many times as long: what counts is by how much more than
// the others.
void leave_out_common(const Graph& g, Beyond& b) {
  std::vector<double> sums_ns, times, distances_ns;
  const auto usual_ns = [](const Beyond::OfGpu& of) { return of.own_ns - of.sum_ns; };
  for (const Beyond::OfGpu& of : b.gpus) {
    if (of.nodes == 0) continue;
    sums_ns.push_back(of.sum_ns);
    times.push_back(usual_ns(of) > 0 ? of.own_ns / usual_ns(of) : 1);
  }
  if (sums_ns.empty()) return;
  const double common_ns = lower_middle(sums_ns), common_times = lower_middle(times);
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    Beyond::OfGpu& of = b.gpus[gpu];
    if (of.nodes == 0) continue;
    const double less_ns = std::max(common_ns, (common_times - 1) * usual_ns(of));
    const double part = of.own_ns > 0 ? less_ns / of.own_ns : 0;
    for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i)
      if (at(b.own_ns, i) != 0) at(b.own_ns, i) -= static_cast<float>(part * at(g.nodes, i).own_ns);
    of.take_off(less_ns);
    distances_ns.push_back(std::abs(of.sum_ns));
  }
  const double deviation_ns = standard_deviation(lower_middle(std::move(distances_ns)));
  for (Beyond::OfGpu& of : b.gpus)
    if (of.nodes > 0) of.deviation_ns = deviation_ns;
}

}  // namespace

void Means::add(float mean) {
  if (means_.size() < remembered_max)
    means_.push_back(mean);
  else
    means_[next_] = mean;
  next_ = static_cast<uint8_t>((next_ + 1) % remembered_max);
}

void Means::add(const std::vector<double>& values, const Settings& settings) {
  const size_t parts = std::clamp<size_t>(values.size() / settings.slow_rounds_min, 1, parts_max);
  for (size_t part = 0; part < parts; ++part) {
    const size_t from = part * values.size() / parts, to = (part + 1) * values.size() / parts;
    double sum = 0;
    for (size_t i = from; i < to; ++i) sum += values[i];
    add(static_cast<float>(sum / static_cast<double>(to - from)));
  }
}

double Means::middle() const { return lower_middle({means_.begin(), means_.end()}); }

double Means::deviation() const {
  const double usual = middle();
  std::vector<double> distances;
  for (float mean : means_) distances.push_back(std::abs(mean - usual));
  return standard_deviation(lower_middle(std::move(distances)));
}

Beyond Past::compare(const Graph& g, const Timeline& t, const Kinds& kinds, Seldom& seldom) const {
  Beyond b;
  b.own_ns.resize(g.nodes.size());
  b.host_ns.resize(g.nodes.size());
  b.gpus.resize(g.gpus.size());
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    Beyond::OfGpu& of = b.gpus[gpu];
    double most_ns = 0, second_ns = 0;
    int most = none;
    for (const auto& [key, nodes] : work_of(g, t, kinds, gpu, settings_)) {
      const auto it = usual_.find(key);
      if (it == usual_.end() || it->second.own_ns.size() < settings_.whatif_peers_min) continue;
      const Usual& usual = it->second;
      const double usual_ns = usual.own_ns.middle(), usual_host_ns = usual.host_ns.middle();
      bool recurs = false;
      if (recurring_.is_seldom(nodes.size())) {
        const uint64_t work = absl::HashOf(key, "past");
        std::vector<float>& now = seldom[work];
        for (int i : nodes) now.push_back(static_cast<float>(at(g.nodes, i).own_ns - usual_ns));
        recurs = recurring_.recurs(work, now);
      }
      for (int i : nodes) {
        const Node& node = at(g.nodes, i);
        const double own_ns = node.own_ns - usual_ns, host_ns = node.host_ns - usual_host_ns;
        at(b.own_ns, i) = static_cast<float>(own_ns);
        at(b.host_ns, i) = static_cast<float>(host_ns);
        if (own_ns > most_ns)
          second_ns = recurs ? own_ns : most_ns, most_ns = own_ns, most = i;
        else
          second_ns = std::max(second_ns, own_ns);
        of.add(own_ns, host_ns, node.own_ns);
      }
      of.nodes += nodes.size();
    }
    // What happened once in a window, and not in others, is no habit: a checkpoint.
    if (most != none) {
      const double once_ns = most_ns - second_ns;
      // The host's part of it leaves, too, as far as it is known.
      if (const double host_ns = at(b.host_ns, most); std::isnan(host_ns))
        of.unknown_ns -= once_ns;
      else
        of.host_ns = std::max(0.0, of.host_ns - std::clamp(host_ns, 0.0, once_ns));
      of.sum_ns -= once_ns;
      at(b.own_ns, most) -= static_cast<float>(once_ns);
    }
  }
  leave_out_common(g, b);
  return b;
}

const Means* Past::transfer(int sender, int receiver, uint64_t bytes, const Timeline& t) const {
  const auto it = transfers_.find(transfer_key(sender, receiver, bytes, t, settings_));
  return it == transfers_.end() || it->second.means.size() < settings_.whatif_peers_min ? nullptr : &it->second.means;
}

void Past::learn_transfers(const Graph& g, const Timeline& t, const std::vector<double>& transfer_less_ns) {
  struct Window {
    std::vector<double> ns;
    bool slow = false;
  };
  absl::flat_hash_map<uint64_t, Window> windows;
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& transfer = g.transfers[i];
    if (!transfer.measured) continue;
    Window& w = windows[transfer_key(at(g.nodes, transfer.send).gpu, at(g.nodes, transfer.recv).gpu, transfer.bytes, t,
                                     settings_)];
    w.ns.push_back(transfer.ns);
    w.slow |= transfer_less_ns[i] > 0;
  }
  for (const auto& [key, w] : windows) {
    if (w.slow || (transfers_.size() >= past_entries_max && !transfers_.contains(key))) continue;
    Seen& of = transfers_[key];
    of.means.add(w.ns, settings_);
    of.last = windows_;
  }
}

void Past::learn(const Graph& g, const Timeline& t, const Kinds& kinds, const std::vector<bool>& late,
                 const std::vector<double>& transfer_less_ns, const Seldom& seldom) {
  ++windows_;
  recurring_.add(seldom);
  std::vector<double> own_ns, host_ns;
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    if (late[gpu]) continue;
    for (const auto& [key, nodes] : work_of(g, t, kinds, gpu, settings_)) {
      if (usual_.size() >= past_entries_max && !usual_.contains(key)) continue;
      Usual& usual = usual_[key];
      own_ns.clear(), host_ns.clear();
      for (int i : nodes) {
        own_ns.push_back(at(g.nodes, i).own_ns);
        host_ns.push_back(known(at(g.nodes, i).host_ns));
      }
      usual.own_ns.add(own_ns, settings_);
      usual.host_ns.add(host_ns, settings_);
      usual.last = windows_;
    }
  }
  learn_transfers(g, t, transfer_less_ns);
  if (windows_ % past_windows_max != 0) return;
  const auto over = [&](const auto& entry) { return entry.second.last + past_windows_max <= windows_; };
  absl::erase_if(transfers_, over);
  absl::erase_if(usual_, over);
}

}  // namespace ccld::decision::whatif
