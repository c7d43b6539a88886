#include "test/sim/scenario.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "test/sim/faults/plan.h"

namespace ccld::sim {
namespace {

LayoutSizes draw_layout(Stream& s, const Wishes& wishes) {
  LayoutSizes l;
  l.gpus_per_host = s.pick(std::vector<int>{1, 2, 4, 4, 8, 8});
  const auto power = [&](int low, int high) { return 1 << s.range(low, high); };
  if (wishes.ranks) {
    l.gpus_per_host = 8;
    l.tensor = *wishes.ranks >= 16 ? 8 : 2;
    l.pipeline = *wishes.ranks >= 256 ? 4 : 1;
    l.data = std::max(1, *wishes.ranks / (l.tensor * l.pipeline));
    return l;
  }
  const double size = s.uniform();
  if (size < 0.012) {  // large
    l.gpus_per_host = 8;
    l.tensor = s.pick(std::vector<int>{4, 8});
    l.pipeline = power(1, 3);
    l.data = std::max(2, power(8, size < 0.002 ? 12 : 10) / (l.tensor * l.pipeline));
    l.world = s.chance(0.5);
  } else if (size < 0.35) {  // one communicator
    l.data = static_cast<int>(s.range(2, size < 0.32 ? 12 : 48));
    l.world = false;
  } else {
    const double width = s.uniform();
    const int most = width < 0.7 ? 16 : width < 0.95 ? 32 : 64;
    do {
      l.tensor = s.chance(0.7) ? power(1, 3) : 1;
      l.pipeline = s.chance(0.5) ? power(1, 2) : 1;
      l.data = s.chance(0.85) ? static_cast<int>(s.range(2, 8)) : 1;
    } while (l.processes() < 3 || l.processes() > most);
    for (int e : {4, 2})
      if (l.expert == 1 && l.data % e == 0 && s.chance(0.35)) l.expert = e;
    l.world = s.chance(0.6) || (l.data == 1 && l.pipeline > 1);
  }
  return l;
}

class ShapeMaker {
 public:
  ShapeMaker(Stream& s, Traffic& t) : s_(s), t_(t) {}
  int add(CommKind comm, abi::Function function, uint64_t count, abi::Datatype type, double low_ms, double high_ms,
          int ranks) {
    OpShape o;
    o.comm = comm;
    o.signature.function = function;
    o.signature.count = count;
    o.signature.datatype = type;
    o.signature.channels = static_cast<uint16_t>(t_.channels);
    o.signature.protocol = count < 4096
                               ? abi::Protocol::ll
                               : s_.pick(std::vector<abi::Protocol>{abi::Protocol::simple, abi::Protocol::simple,
                                                                    abi::Protocol::ll, abi::Protocol::ll128});
    const bool reduces = function == abi::Function::all_reduce || function == abi::Function::reduce_scatter;
    o.signature.reduction = reduces ? abi::Reduction::sum : abi::Reduction::none;
    o.steps = static_cast<int>(s_.range(12, 40));
    o.duration_ns = static_cast<Nanoseconds>(s_.log_real(low_ms, high_ms) * 1e6);
    o.way = Way::ring;
    o.signature.algorithm = abi::Algorithm::ring;
    if (function == abi::Function::all_reduce && (ranks > 256 || s_.chance(0.4))) {
      o.way = Way::tree;
      o.signature.algorithm = abi::Algorithm::tree;
    } else if (function == abi::Function::all_to_all) {
      o.way = Way::all_to_all;
      o.signature.algorithm = abi::Algorithm::unknown;
      o.signature.protocol = abi::Protocol::unknown;
    } else if (function == abi::Function::broadcast) {
      o.way = Way::broadcast;
      o.signature.root = 0;
    }
    if (o.way == Way::ring && o.signature.protocol == abi::Protocol::simple) o.step_size = 2;
    o.index = static_cast<int>(t_.shapes.size());
    t_.shapes.push_back(o);
    return o.index;
  }

 private:
  Stream& s_;
  Traffic& t_;
};

Traffic draw_traffic(Stream& s, const LayoutSizes& l) {
  Traffic t;
  t.channels = static_cast<int>(s.range(1, l.processes() > 256 ? 2 : 3));
  t.buffered_network = s.chance(0.5);
  t.microbatches = l.pipeline > 1 ? static_cast<int>(s.range(2, 4)) : static_cast<int>(s.range(1, 2));
  t.jitter = s.log_real(0.002, 0.05);
  t.imbalance = s.chance(0.3) ? s.real(0.05, 0.5) : 0;
  t.eager = s.chance(0.2);
  t.transfer_ns = static_cast<Nanoseconds>(s.log_real(0.2, 3) * 1e6);
  t.transfer_bytes = 1u << s.range(16, 24);
  t.compute_ns = static_cast<Nanoseconds>(s.log_real(10, 60) * 1e6);
  ShapeMaker make(s, t);
  const auto all_reduce = abi::Function::all_reduce;
  if (l.tensor > 1) {
    t.tensor_forward = make.add(CommKind::tensor, all_reduce, 1u << 20, abi::Datatype::bfloat16, 0.4, 2, l.tensor);
    t.tensor_backward = make.add(CommKind::tensor, all_reduce, 3u << 20, abi::Datatype::bfloat16, 0.4, 3, l.tensor);
  }
  if (l.expert > 1)
    t.expert =
        make.add(CommKind::expert, abi::Function::all_to_all, 1u << 18, abi::Datatype::bfloat16, 0.5, 3, l.expert);
  if (l.data > 1) {
    const bool sharded = l.data <= 256 && s.chance(0.3);
    const auto function = sharded ? abi::Function::reduce_scatter : all_reduce;
    for (int64_t i = s.range(1, 3); i > 0; --i)
      t.gradients.push_back(make.add(CommKind::data, function, (1u << 22) + 4096 * static_cast<uint64_t>(i),
                                     abi::Datatype::float32, 3.5, 12, l.data));
    if (sharded)
      t.gather = make.add(CommKind::data, abi::Function::all_gather, 1u << 21, abi::Datatype::bfloat16, 3.5, 8, l.data);
    if (l.data <= 64 && s.chance(0.3)) {
      t.broadcast =
          make.add(CommKind::data, abi::Function::broadcast, 1u << 16, abi::Datatype::float32, 0.5, 4, l.data);
      t.broadcast_every = static_cast<uint64_t>(s.range(3, 20));
    }
  }
  const CommKind widest = l.world ? CommKind::world : l.data > 1 ? CommKind::data : CommKind::tensor;
  if (l.world) t.loss = make.add(CommKind::world, all_reduce, 16, abi::Datatype::float32, 0.2, 1, l.processes());
  t.barrier = make.add(widest, all_reduce, 1, abi::Datatype::float32, 0.1, 0.5, l.processes());
  return t;
}

// Tensor groups that lie within a node reduce through its switch.
void reduce_by_nvls(const LayoutSizes& sizes, Traffic& t) {
  if (sizes.gpus_per_host % sizes.tensor != 0) return;
  for (int i : {t.tensor_forward, t.tensor_backward}) {
    if (i < 0) continue;
    OpShape& shape = t.shapes[static_cast<size_t>(i)];
    shape.way = Way::nvls;
    shape.signature.algorithm = abi::Algorithm::nvls;
    shape.signature.protocol = abi::Protocol::simple;
    shape.step_size = 1;
  }
}

// Stages as they are: many equal calls, and a head and an embedding that the others have not.
void draw_layers(Stream s, Traffic& t) {
  t.layers = static_cast<int>(s.range(2, 8));
  t.head = s.log_real(0.05, 0.6);
  t.embedding = s.chance(0.5) ? s.log_real(0.02, 0.2) : 0;
}

// What healthy jobs do and no alarm may come of.
void draw_irregularities(Stream& s, Scenario& sc) {
  Traffic& t = sc.traffic;
  if (s.chance(0.5)) {
    t.slow_iterations = static_cast<int>(s.range(1, 3));
    t.slow_start = s.log_real(2, 12);
  }
  if (s.chance(0.25)) {
    t.evaluate_every = static_cast<uint64_t>(s.range(20, 80));
    t.evaluate_iterations = static_cast<uint64_t>(s.range(2, 10));
  }
  if (s.chance(0.3)) {
    t.checkpoint_every = static_cast<uint64_t>(s.range(15, 80));
    t.checkpoint_ns = static_cast<Nanoseconds>(s.log_real(0.3, 20) * 1e9);
    // Where no barrier waits for the first process, others wait for it in an operation that is none.
    const CommKind barrier = t.shapes[static_cast<size_t>(t.barrier)].comm;
    const bool all_wait = barrier == CommKind::world ||
                          sc.sizes.processes() == (barrier == CommKind::data ? sc.sizes.data : sc.sizes.tensor);
    t.checkpoint_by_first = s.chance(0.4) && all_wait;
    if (t.checkpoint_by_first) sc.longest_wait_ns = t.checkpoint_ns;
  }
}

void draw_disturbance(Stream& s, Scenario& sc, bool hang) {
  Disturbance& d = sc.disturbance;
  d.delay_ns = static_cast<Nanoseconds>(s.log_real(0.2, 30) * 1e6);
  if (s.chance(0.4)) d.loss = s.log_real(0.0005, 0.05);
  if (s.chance(0.3)) d.duplicates = s.log_real(0.001, 0.2);
  if (s.chance(0.3)) {
    d.spikes = s.log_real(0.001, 0.1);
    d.spike_ns = static_cast<Nanoseconds>(s.log_real(0.05, 1.5) * 1e9);
  }
  if (s.chance(0.15)) d.service_starts = sc.start + static_cast<Nanoseconds>(s.real(0.2, hang ? 1.5 : 8) * 1e9);
  sc.skew_ns = s.log_real(1e3, 5e9);
  sc.drift = s.real(0, 60e-6);
}

// Before a hang, within it, and when it is known.
void draw_restart(Stream& s, Scenario& sc) {
  Disturbance& d = sc.disturbance;
  const Instant around = is_hang(sc.planted.kind) ? sc.planted.at : sc.start + 15 * ns_per_s;
  const auto seconds = [&](double low, double high) { return static_cast<Nanoseconds>(s.real(low, high) * 1e9); };
  d.restart_to = std::max(around + seconds(-3, 25), std::max(sc.start, d.service_starts) + 2 * ns_per_s);
  d.restart_from = std::max(d.restart_to - seconds(0.1, 6), std::max(sc.start, d.service_starts) + ns_per_s);
  sc.end = std::max(sc.end, d.restart_to + 60 * ns_per_s);
}

Ending draw_ending(Stream& s) {
  Ending e;
  e.share = s.real(0, 1);
  e.error_ns = static_cast<Nanoseconds>(s.log_real(0.3, 3) * 1e9);
  e.ended_ns = static_cast<Nanoseconds>(s.real(0, 10) * 1e9);
  e.spread_ns = static_cast<Nanoseconds>(s.log_real(0.01, 4) * 1e9);
  return e;
}

}  // namespace

Scenario draw(uint64_t seed, const Wishes& wishes) {
  Scenario sc;
  sc.seed = seed;
  Stream kinds(seed, "kind"), layouts(seed, "layout"), traffic(seed, "traffic"), plans(seed, "plan"),
      irregular(seed, "irregular"), disturbances(seed, "disturbance");
  FaultKind kind = FaultKind::none;
  if (!kinds.chance(1.0 / 3))
    kind = static_cast<FaultKind>(kinds.range(1, static_cast<int64_t>(FaultKind::slow_clock_and_delaying)));
  if (wishes.slow)
    kind = static_cast<FaultKind>(Stream(seed, "slow kind")
                                      .range(static_cast<int64_t>(FaultKind::late_host),
                                             static_cast<int64_t>(FaultKind::slow_clock_and_delaying)));
  if (kind == FaultKind::other_count && Stream(seed, "of calls").chance(1.0 / 3)) kind = FaultKind::other_bytes;
  if (kind == FaultKind::delaying_proxy && Stream(seed, "of visits").chance(1.0 / 2)) kind = FaultKind::seldom_proxy;
  if (wishes.fault) kind = *wishes.fault;
  // Streams of their own: seeds that do not draw them stay as they are.
  Slowness slowness;
  slowness.from_start = is_slow(kind) && Stream(seed, "from the start").chance(wishes.from_start);
  slowness.in_pipeline = is_s2(kind) && Stream(seed, "in the pipeline").chance(wishes.pipeline_links);
  slowness.mild = is_slow(kind) && Stream(seed, "mild").chance(wishes.mild);
  const bool nvls = Stream(seed, "nvls").chance(wishes.nvls);
  sc.start = ns_per_s;
  if (irregular.chance(0.08)) {
    sc.earlier_start = sc.start;
    sc.earlier_end = sc.start + irregular.range(3 * ns_per_s, 12 * ns_per_s);
    sc.start = sc.earlier_end + irregular.range(4 * ns_per_s, 20 * ns_per_s);
  }
  // A fault needs a job in which it can happen; that is drawn again, not the fault.
  for (int attempt = 0;; ++attempt) {
    sc.sizes = draw_layout(layouts, wishes);
    sc.traffic = draw_traffic(traffic, sc.sizes);
    if (nvls) reduce_by_nvls(sc.sizes, sc.traffic);
    if (sc.sizes.pipeline > 1 && Stream(seed, "layers").chance(wishes.layers))
      draw_layers(Stream(seed, "of a stage", static_cast<uint64_t>(attempt)), sc.traffic);
    sc.longest_wait_ns = 0;
    draw_irregularities(irregular, sc);
    if (plan_fault(kind, slowness, plans, sc)) break;
    if (attempt == 200) {
      kind = FaultKind::none;
      sc.planted = {};
    }
  }
  draw_disturbance(disturbances, sc, is_hang(kind));
  if (Stream again(seed, "service starts again");
      (kind == FaultKind::none || (is_hang(kind) && !is_h2(kind))) && again.chance(wishes.restart))
    draw_restart(again, sc);
  // What differs is told at once, but what hangs because of it in a pipeline may take a minute.
  if (Stream ends(seed, "it ends");
      is_hang(kind) && !(is_h2(kind) && sc.sizes.pipeline > 1) && ends.chance(wishes.ends))
    sc.ending = draw_ending(ends);
  if (kind == FaultKind::none && disturbances.chance(0.3)) {
    const auto p = static_cast<int>(disturbances.range(0, sc.sizes.processes() - 1));
    const Instant from = sc.start + disturbances.range(2 * ns_per_s, 20 * ns_per_s);
    sc.mutes.push_back({p, from, from + disturbances.range(ns_per_s, 15 * ns_per_s)});
  }
  return sc;
}

std::string Scenario::summary() const {
  return absl::StrFormat(
             "%d ranks tp%d pp%d dp%d ep%d%s, %d per host, %d channels%s, %.0f ms an iteration, loss %.3f, repeated "
             "%.3f, "
             "late "
             "%.3f%s%s%s",
             sizes.processes(), sizes.tensor, sizes.pipeline, sizes.data, sizes.expert, sizes.world ? " world" : "",
             sizes.gpus_per_host, traffic.channels, traffic.buffered_network ? " sockets" : "", iteration_s * 1e3,
             disturbance.loss, disturbance.duplicates, disturbance.spikes,
             disturbance.service_starts > 0 ? ", service starts late" : "",
             disturbance.restart_to < never ? absl::StrFormat(", service away from %.1f to %.1f s",
                                                              static_cast<double>(disturbance.restart_from) / 1e9,
                                                              static_cast<double>(disturbance.restart_to) / 1e9)
                                            : "",
             earlier_end > 0 ? ", restarted" : "") +
         (ending
              ? absl::StrFormat(
                    ", ends: %.0f %% of those connected after %.2f s, all %.1f s after the first word, within %.2f s",
                    100 * ending->share, static_cast<double>(ending->error_ns) / 1e9,
                    static_cast<double>(ending->ended_ns) / 1e9, static_cast<double>(ending->spread_ns) / 1e9)
              : "");
}

}  // namespace ccld::sim
