#include "decision/trace/gpu_clocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision::trace {
namespace {

// Long enough for a few iterations, short enough for clocks that drift by 50 ppm to differ by 100 microseconds only.
constexpr Nanoseconds window_first_ns = 2 * ns_per_s;
// 200 KiB for a GPU; two hours in windows of two seconds.
constexpr size_t knots_max = 4096;
// A clock that moves so much against another between two windows was set: nothing lies in between.
constexpr int64_t jump_ns = ns_per_s / 10;

int64_t difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b); }

// Works on GPUs' clocks and on hosts' clocks: `at` and `add` of each knot.
template <class Knots, class At, class Add>
int64_t interpolated(const Knots& knots, uint64_t t, At at, Add add) {
  const auto after = std::partition_point(knots.begin(), knots.end(), [&](const auto& k) { return difference(at(k), t) <= 0; });
  if (after == knots.begin()) return add(*after);
  const auto before = std::prev(after);
  if (after == knots.end()) return add(*before);
  const int64_t by_ns = add(*after) - add(*before), length_ns = difference(at(*after), at(*before)), past_ns = difference(t, at(*before));
  if (std::abs(by_ns) > jump_ns || 2 * std::abs(by_ns) > length_ns) return past_ns < length_ns / 2 ? add(*before) : add(*after);
  return add(*before) + std::llround(static_cast<double>(by_ns) * static_cast<double>(past_ns) / static_cast<double>(length_ns));
}

}  // namespace

GpuClock::GpuClock(std::vector<Knot> knots, int64_t host_add_ns) : knots_(std::move(knots)), host_add_ns_(host_add_ns) {
  for (const Knot& k : knots_)
    if (k.launch_least_ns != INT64_MAX) host_knots_.push_back({k.device_ns - static_cast<uint64_t>(k.launch_least_ns), k.launch_least_ns});
}

Nanoseconds GpuClock::of_device(uint64_t device_ns) const {
  if (knots_.empty()) return static_cast<Nanoseconds>(device_ns);
  const int64_t add_ns = interpolated(knots_, device_ns, [](const Knot& k) { return k.device_ns; }, [](const Knot& k) { return k.add_ns; });
  return static_cast<Nanoseconds>(device_ns + static_cast<uint64_t>(add_ns));
}

Nanoseconds GpuClock::of_host(uint64_t monotonic_ns) const {
  if (host_knots_.empty()) return static_cast<Nanoseconds>(monotonic_ns + static_cast<uint64_t>(host_add_ns_));
  const int64_t add_ns =
      interpolated(host_knots_, monotonic_ns, [](const HostKnot& k) { return k.host_ns; }, [](const HostKnot& k) { return k.to_device_ns; });
  return of_device(monotonic_ns + static_cast<uint64_t>(add_ns));
}

namespace {

// Windows in which an operation took long, or a machine was busy, tell clocks badly. Clocks drift by so little that the
// windows before and after may tell more: a knot that is less certain than another one still is at its time says nothing.
void drop_uncertain(std::vector<Knot>& knots, double drift_part) {
  std::vector<bool> drop(knots.size());
  const auto pass = [&](auto at) {
    double least_ns = INFINITY;  // how uncertain the best of the knots so far is by now
    for (size_t i = 0; i < knots.size(); ++i) {
      const Knot& k = knots[at(i)];
      if (i > 0) least_ns += drift_part * std::abs(static_cast<double>(difference(k.device_ns, knots[at(i - 1)].device_ns)));
      const double own_ns = k.earlier_ns + k.later_ns;
      if (least_ns < own_ns) drop[at(i)] = true;
      least_ns = std::min(least_ns, own_ns);
    }
  };
  pass([](size_t i) { return i; });
  pass([&](size_t i) { return knots.size() - 1 - i; });
  size_t kept = 0;
  for (size_t i = 0; i < knots.size(); ++i)
    if (!drop[i]) knots[kept++] = knots[i];
  knots.resize(kept);
}

Settings for_timeline(Settings settings, size_t gpus) {
  settings.whatif_gpus_max = gpus;
  return settings;
}

}  // namespace

GpuClocks::GpuClocks(const Directory& directory, const std::vector<int>& gpus, const Settings& settings)
    : directory_(directory),
      settings_(for_timeline(settings, gpus.size())),
      timeline_(settings_, timeline_gpus_),
      place_(directory.gpus().size(), nobody),
      process_clocks_(directory.process_count()),
      heard_(directory.process_count()),
      clocks_(directory.gpus().size()),
      window_ns_(window_first_ns) {
  for (const int index : gpus) {
    place_[static_cast<size_t>(index)] = static_cast<int>(gpus_.size());
    gpus_.push_back({.index = index, .knots = {}});
  }
}

GpuClocks::Gpu* GpuClocks::gpu(CommUid comm, Rank rank) {
  const int index = directory_.gpu(comm, rank);
  const int place = index == nobody ? nobody : place_[static_cast<size_t>(index)];
  return place == nobody ? nullptr : &gpus_[static_cast<size_t>(place)];
}

template <class Message>
void GpuClocks::take(const Message& m, int ranks, Nanoseconds now_ns) {
  Gpu* const g = gpu(m.comm, m.rank);
  if (!g || m.rounds.empty()) return;
  const timeline::GpuKey key{this, static_cast<int>(g - gpus_.data())};
  if constexpr (std::is_same_v<Message, Rounds>)
    timeline_.add(key, m, ranks);
  else
    timeline_.add(key, m);
  for (const auto& r : m.rounds) {
    constexpr uint8_t untimed = round_no_kernel | round_lapped | round_not_measured | round_aborted;
    if ((r.flags & untimed) == 0 && r.begin_device_ns != 0 && r.end_device_ns >= r.begin_device_ns) {
      g->arrival_least_ns = std::min(g->arrival_least_ns, difference(static_cast<uint64_t>(now_ns), r.end_device_ns));
      if (g->first_device_ns == 0 || r.begin_device_ns < g->first_device_ns) g->first_device_ns = r.begin_device_ns;
    }
    if (r.enter_monotonic_ns != 0 && (g->first_host_ns == 0 || r.enter_monotonic_ns < g->first_host_ns)) g->first_host_ns = r.enter_monotonic_ns;
  }
}

void GpuClocks::add(const Batch& batch, Nanoseconds now_ns) {
  if (!std::exchange(begun_, true)) started_ns_ = now_ns;
  // Where there are more kernels than a window takes, its first ones tell the clocks.
  if (now_ns - started_ns_ >= window_ns_) end_window(now_ns);
  if (const size_t process = directory_.process(batch); process < process_clocks_.size()) {
    process_clocks_[process].observe(batch.sent_monotonic_ns, now_ns);
    heard_[process] = true;
  }
  for (const Payload& payload : batch.payloads) {
    if (const auto* m = std::get_if<Rounds>(&payload)) {
      const DirectoryComm* const comm = directory_.comm(m->comm);
      take(*m, comm ? comm->rank_count : 0, now_ns);
    }
    if (const auto* m = std::get_if<P2pRounds>(&payload)) take(*m, 0, now_ns);
  }
}

// How far each GPU alone may be moved against the others, in the knots' order.
void GpuClocks::prove(const timeline::Timeline& t, const timeline::Matches& matches, const timeline::Clocks& clocks, std::vector<Knot>& knots) {
  for (Knot& k : knots) k.earlier_ns = k.later_ns = INFINITY;
  struct Times {
    size_t gpu;
    double begin_ns, end_ns;
  };
  const auto times = [&](timeline::Place p) {
    const timeline::Kernel& k = t.gpus()[static_cast<size_t>(p.gpu)].kernels[static_cast<size_t>(p.kernel)];
    return Times{static_cast<size_t>(p.gpu), clocks.common_ns(p.gpu, k.begin_ns), clocks.common_ns(p.gpu, k.end_ns)};
  };
  const auto bound = [](double& most_ns, double ns) { most_ns = std::min(most_ns, std::max(0.0, ns)); };
  for (const timeline::Collective& c : matches.collectives) {
    // The two last begins and the two first ends: of all others than a member it is one of them.
    double begins[2] = {-INFINITY, -INFINITY}, ends[2] = {INFINITY, INFINITY};
    std::vector<Times> members;
    for (const timeline::Place p : c.members) {
      members.push_back(times(p));
      const auto& [gpu, begin_ns, end_ns] = members.back();
      if (begin_ns > begins[0]) begins[1] = std::exchange(begins[0], begin_ns);
      else begins[1] = std::max(begins[1], begin_ns);
      if (end_ns < ends[0]) ends[1] = std::exchange(ends[0], end_ns);
      else ends[1] = std::min(ends[1], end_ns);
    }
    for (const auto& [gpu, begin_ns, end_ns] : members) {
      bound(knots[gpu].earlier_ns, end_ns - (begin_ns == begins[0] ? begins[1] : begins[0]));
      bound(knots[gpu].later_ns, (end_ns == ends[0] ? ends[1] : ends[0]) - begin_ns);
    }
  }
  for (const timeline::Pair& p : matches.pairs) {
    const Times send = times(p.send), recv = times(p.recv);
    bound(knots[recv.gpu].earlier_ns, recv.end_ns - send.begin_ns);
    bound(knots[send.gpu].later_ns, recv.end_ns - send.begin_ns);
  }
}

void GpuClocks::end_window(Nanoseconds now_ns) {
  const auto& shown = timeline_.gpus();
  const size_t n = shown.size();
  const auto gpu_of = [&](size_t i) -> Gpu& { return gpus_[static_cast<size_t>(shown[i].key.second)]; };
  std::vector<timeline::HostClock> hosts(n);
  for (size_t i = 0; i < n; ++i) {
    const Gpu& g = gpu_of(i);
    const size_t process = directory_.gpus()[static_cast<size_t>(g.index)].process;
    if (shown[i].launch_least_ns != INT64_MAX && heard_[process]) {
      const Nanoseconds host_to_service =
          process_clocks_[process].to_local(static_cast<uint64_t>(now_ns), std::numeric_limits<Nanoseconds>::max()) - now_ns;
      hosts[i] = {true, static_cast<double>(host_to_service - shown[i].launch_least_ns)};
    } else if (g.arrival_least_ns != INT64_MAX) {
      // Kernels of replays have no launch of their own: a report comes soon after the end, at least once.
      hosts[i] = {true, static_cast<double>(g.arrival_least_ns)};
    }
  }
  const timeline::Matches matches = timeline::match_kernels(timeline_);
  timeline::Clocks clocks = timeline::compare_clocks(timeline_, matches, hosts, settings_);
  // From common time to the service's clock: what most GPUs of a component say.
  std::map<int, std::vector<double>> words;
  for (size_t i = 0; i < n; ++i)
    if (hosts[i].known && !shown[i].kernels.empty())
      words[clocks.component[i]].push_back(hosts[i].device_to_service_ns + static_cast<double>(static_cast<int64_t>(clocks.origin_ns[i])) - clocks.shift_ns[i]);
  std::vector<Knot> knots(n);
  prove(timeline_, matches, clocks, knots);
  for (size_t i = 0; i < n; ++i) {
    const auto said = words.find(clocks.component[i]);
    if (shown[i].kernels.empty() || said == words.end()) continue;
    uint64_t last_ns = 0;
    for (const timeline::Kernel& k : shown[i].kernels) last_ns = std::max(last_ns, k.end_ns);
    Knot& k = knots[i];
    k.device_ns = clocks.origin_ns[i] + (last_ns - clocks.origin_ns[i]) / 2;
    k.add_ns = std::llround(clocks.shift_ns[i] + middle(said->second)) - static_cast<int64_t>(clocks.origin_ns[i]);
    k.launch_least_ns = shown[i].launch_least_ns;
    std::vector<Knot>& all = gpu_of(i).knots;
    // A clock that goes back began anew.
    if (!all.empty() && difference(k.device_ns, all.back().device_ns) <= 0) continue;
    all.push_back(k);
  }
  timeline_.remember(std::move(clocks.pairs));
  timeline_.clear(now_ns - started_ns_);
  started_ns_ = now_ns;
  if (std::none_of(gpus_.begin(), gpus_.end(), [](const Gpu& g) { return g.knots.size() >= knots_max; })) return;
  window_ns_ *= 2;
  for (Gpu& g : gpus_) {
    for (size_t i = 0; 2 * i < g.knots.size(); ++i) g.knots[i] = g.knots[2 * i];
    g.knots.resize((g.knots.size() + 1) / 2);
  }
}

void GpuClocks::finish(Nanoseconds now_ns) {
  end_window(now_ns);
  for (Gpu& g : gpus_) {
    const size_t process = directory_.gpus()[static_cast<size_t>(g.index)].process;
    drop_uncertain(g.knots, 2e-6 * settings_.clock_drift_max_ppm);
    const int64_t host_add_ns = process_clocks_[process].to_local(0, std::numeric_limits<Nanoseconds>::max());
    GpuClock& clock = clocks_[static_cast<size_t>(g.index)] = GpuClock(std::move(g.knots), heard_[process] ? host_add_ns : 0);
    if (g.first_device_ns != 0 && !clock.knots().empty()) earliest_ns_ = std::min(earliest_ns_, clock.of_device(g.first_device_ns));
    if (g.first_host_ns != 0) earliest_ns_ = std::min(earliest_ns_, clock.of_host(g.first_host_ns));
  }
}

}  // namespace ccld::decision::trace
