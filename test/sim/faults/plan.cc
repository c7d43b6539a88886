#include "test/sim/faults/plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "test/sim/cluster/job.h"
#include "test/sim/faults/connections.h"
#include "test/sim/faults/losses.h"

namespace ccld::sim {
namespace {

struct Range {
  double low, high;
};
// How a fault is drawn; whether it does what it is meant to do is found out by running the job.
struct Strength {
  Range operations;  // so many times its usual time an operation takes longer
  Range link;        // so many times as long a link takes for a step
  Range transfers;   // so much of an iteration all transfers of a pipeline take longer
};
// The paper's bound is 4 times (R > 3).
constexpr Strength strong = {{7, 16}, {25, 120}, {0.4, 3}};
constexpr Strength weak = {{0.3, 7}, {1.3, 25}, {0.05, 0.5}};
constexpr Nanoseconds shortest_pause_ns = 20 * ns_per_ms;  // of a proxy that seldom runs: below, it is a slow one
// Rounds of one kind until its usual time is known, and how long they are waited for at most.
constexpr int baseline_rounds = 112;
constexpr double baseline_s_max = 130;
constexpr Nanoseconds lateness_max_ns = 1500 * ns_per_ms;
constexpr double iterations_per_s_min = 0.3;  // a window of ten seconds must see several
// What makes the iterations of a job longer by less need not be found.
constexpr double iterations_longer_min = 1.1;
// Of a mild fault, the setting `whatif_gain_min` (5 % of the longer iteration) with a margin; and at most.
constexpr Range mild_iterations_longer = {1.08, 1.5};
// Nobody is slow but by comparison: besides the culprit so many ranks, connections or proxies do the same work.
constexpr size_t peers_min = 3;

class Planner {
 public:
  Planner(FaultKind kind, Slowness slowness, Stream& s, Scenario& sc)
      : kind_(kind), slowness_(slowness), strength_(slowness.mild ? weak : strong), s_(s), sc_(sc), layout_(sc.sizes) {
    sc.conditions = {};
    sc.conditions.processes.resize(layout_.processes());
    sc.mutes.clear();
    sc.passings.clear();
    sc.planted = {};
    sc.planted.kind = kind;
    sc.planted.from_start = slowness.from_start;
    sc.planted.in_pipeline = slowness.in_pipeline;
    sc.iteration_s = iteration_s(layout_, sc.traffic);
  }

  bool plan() {
    if (kind_ == FaultKind::none) {
      sc_.end = sc_.start + static_cast<Nanoseconds>(s_.log_real(10, 100) * 1e9);
      return true;
    }
    if (is_slow(kind_)) {
      // Long pauses only make the seed longer.
      sc_.traffic.checkpoint_every = sc_.traffic.evaluate_every = 0;
      sc_.longest_wait_ns = 0;
      sc_.planted.at = 0;
      if (!(slowness_.in_pipeline ? plan_slow_pipeline() : plan_slow())) return false;
      if (slowness_.from_start && !has_peers()) return false;
      if (!(slowness_.mild ? takes_mild_effect() : slowness_.from_start ? takes_effect_from_start() : takes_effect()))
        return false;
      if (is_s3(kind_) && !each_prolongs_iterations()) return false;
      if (slowness_.from_start) {
        sc_.planted.at = sc_.start;
        sc_.planted.text += ", from the start";
        sc_.end = sc_.planted.at + 400 * ns_per_s;
        return true;
      }
      const int warm = sc_.traffic.slow_iterations + 2;
      const Instant first = begin_of(warm), second = begin_of(warm + 3);
      sc_.iteration_s = static_cast<double>(second - first) / 3e9;
      const double learn_s = std::min(baseline_s_max, baseline_rounds * sc_.iteration_s) + s_.real(0, 10);
      sc_.planted.at = second + static_cast<Nanoseconds>(learn_s * 1e9);
      set_slow(sc_.conditions, sc_.planted.at);
      sc_.end = sc_.planted.at + 400 * ns_per_s;
      return true;
    }
    // Beyond what counts as warm-up on every communicator.
    iteration_ = static_cast<uint64_t>(sc_.traffic.slow_iterations) + 7 + s_.below(6);
    sc_.planted.at = 0;  // the most common reasons to give up are found before the job is run to find out when
    if (!plan_hang()) return false;
    const Instant from = begin_of(static_cast<int>(iteration_)), to = begin_of(static_cast<int>(iteration_) + 1);
    sc_.planted.at = from + s_.range(0, to - from);
    sc_.iteration_s = static_cast<double>(to - from) / 1e9;
    sc_.conditions = {};
    sc_.conditions.processes.resize(layout_.processes());
    sc_.passings.clear();
    sc_.planted.processes.clear();
    sc_.planted.text.clear();
    sc_.traffic.shapes.resize(shapes_before_);
    s_ = before_;
    if (!plan_hang()) return false;
    sc_.end = sc_.planted.at + 200 * ns_per_s;
    return true;
  }

 private:
  bool plan_hang() {
    before_ = s_;
    shapes_before_ = sc_.traffic.shapes.size();
    return is_h1(kind_) ? plan_h1() : is_h2(kind_) ? plan_h2() : plan_h3();
  }

  // When the first process begins this iteration of the healthy job.
  Instant begin_of(int iteration) {
    if (!rehearsal_) {
      healthy_.processes.resize(layout_.processes());
      rehearsal_ = std::make_unique<Job>(layout_, sc_.traffic, healthy_, sc_.seed, sc_.start);
      rehearsed_ = sc_.start;
    }
    constexpr Nanoseconds step_ns = 20 * ns_per_ms;
    while (begins_.size() <= static_cast<size_t>(iteration)) {
      rehearsal_->run_until(rehearsed_);
      if (rehearsed_ % ns_per_s == 0) rehearsal_->forget(rehearsed_ - ns_per_s);
      begins_.resize(rehearsal_->iteration_of_process(0) + 1, rehearsed_);
      rehearsed_ += step_ns;
    }
    return begins_[iteration];
  }

  // A fault that nobody could notice at the settings' bound is none: operations must take noticeably more than four
  // times as long as usual. Of two faults each must have a noticeable part in what they cost together: one that is
  // hidden behind the other, or below what counts as a cause, is none either. And a window of ten seconds, half of
  // which is looked at, must see several operations: otherwise windows are prolonged, and it takes as much longer. What
  // does not make the job slower need not be found: a stage of a pipeline has time to spare, which hides a slow link.
  bool takes_effect() {
    if (slowness_.in_pipeline) return prolongs_iterations(rehearse(healthy_conditions()), rehearse(slow_from_start()));
    return is_noticeable(losses());
  }

  // Of what is there from the start there is nothing to compare with but the same job without it.
  bool takes_effect_from_start() {
    const Rehearsed healthy = rehearse(healthy_conditions()), slow = rehearse(slow_from_start());
    sc_.iteration_s = slow.iteration_s();
    if (slowness_.in_pipeline) return prolongs_iterations(healthy, slow);
    Losses l = losses_of(sc_.planted.comm, healthy.span(), slow.span());
    l.iterations_longer = slow.iteration_s() / healthy.iteration_s();
    return is_noticeable(l);
  }

  // Whether iterations get longer by as much as a mild fault should make them. Says so in the text of the fault.
  bool takes_mild_effect() {
    const double healthy_s = rehearse(healthy_conditions()).iteration_s(),
                 slow_s = rehearse(slow_from_start()).iteration_s();
    sc_.iteration_s = slowness_.from_start ? slow_s : healthy_s;
    const double longer = slow_s / healthy_s;
    sc_.planted.text += absl::StrFormat(", iterations %.2f times as long", longer);
    return longer >= mild_iterations_longer.low && longer <= mild_iterations_longer.high &&
           slow_s * iterations_per_s_min <= 1;
  }

  // Without either of two faults iterations are noticeably shorter. One that others hide costs the job nothing,
  // whatever it costs the operations of one communicator.
  bool each_prolongs_iterations() {
    Conditions computation = slow_from_start(), communication = sc_.conditions;
    computation.links.clear();
    computation.slow_proxies.clear();
    for (ProcessConditions& p : communication.processes) p.slow_clock_at = p.late_at = never;
    const double least = slowness_.mild ? mild_iterations_longer.low : iterations_longer_min;
    const double both_s = rehearse(sc_.conditions).iteration_s();
    return both_s >= least * rehearse(computation).iteration_s() &&
           both_s >= least * rehearse(communication).iteration_s();
  }

  // Send and Recv have no rounds: what counts is by how much iterations get longer. Several of them must be left in a
  // window, and nobody may be awaited for so long that it is suspected to hang.
  struct Rehearsed;
  static bool prolongs_iterations(const Rehearsed& healthy, const Rehearsed& slow) {
    constexpr double least = 1.3;
    const double longer_s = slow.iteration_s() - healthy.iteration_s();
    return slow.iteration_s() >= least * healthy.iteration_s() && slow.iteration_s() * iterations_per_s_min <= 1 &&
           longer_s * 1e9 <= static_cast<double>(lateness_max_ns);
  }

  bool is_noticeable(const Losses& l) const {
    constexpr double least = 5.5, part_min = 0.25, operations_per_s_min = 0.6;
    if (l.slowdown < least || l.operations_per_s < operations_per_s_min) return false;
    if (l.iterations_longer < iterations_longer_min) return false;
    return !is_s3(kind_) ||
           std::min(l.computation_ns, l.communication_ns) >= part_min * (l.computation_ns + l.communication_ns);
  }

  // Some iterations after the warm-up.
  struct Rehearsed {
    std::unique_ptr<Job> job;
    Instant from, to;
    int iterations;
    Span span() const { return {*job, from, to}; }
    double iteration_s() const { return static_cast<double>(to - from) / iterations / 1e9; }
  };
  // `conditions` live as long as the planner.
  Rehearsed rehearse(const Conditions& conditions) {
    const int during = slowness_.mild ? 15 : 5;  // imbalance differs from iteration to iteration
    const auto warm = static_cast<uint64_t>(sc_.traffic.slow_iterations) + 2;
    const auto usual_ns = static_cast<Nanoseconds>(sc_.iteration_s * 1e9);
    Rehearsed r{std::make_unique<Job>(layout_, sc_.traffic, conditions, sc_.seed, sc_.start), -1, 0, during};
    // A fault that makes iterations a hundred times as long is none of those that are drawn; it would be refused.
    const Instant longest = sc_.start + 100 * (static_cast<Instant>(warm) + during) * usual_ns;
    // The difference that a mild fault makes is some percent.
    const Nanoseconds step_ns = slowness_.mild ? usual_ns / 100 : usual_ns / 8 + ns_per_ms;
    for (Instant t = sc_.start; t < longest; t += step_ns) {
      r.job->run_until(t);
      const uint64_t iteration = r.job->iteration_of_process(0);
      if (r.from < 0 && iteration >= warm) r.from = t;
      r.to = t;
      if (iteration >= warm + during) break;
    }
    r.from = std::max(r.from, sc_.start);
    return r;
  }
  const Conditions& healthy_conditions() {
    healthy_.processes.resize(layout_.processes());
    return healthy_;
  }
  const Conditions& slow_from_start() {
    set_slow(sc_.conditions, sc_.start);
    return sc_.conditions;
  }

  // Whether there is enough that does the same work and is not slow.
  bool has_peers() const {
    const auto same_role = static_cast<size_t>(sc_.sizes.tensor * sc_.sizes.data);  // the ranks of a stage
    if (is_s1(kind_)) return same_role > peers_min;
    std::vector<Edge> edges = slowness_.in_pipeline ? network_transfers(layout_)
                                                    : network_edges(layout_, CommKind::data, sc_.traffic.channels);
    std::vector<int> senders;
    for (const BadLink& l : sc_.conditions.links) std::erase(edges, Edge{l.sender, l.receiver});
    for (const SlowProxy& p : sc_.conditions.slow_proxies)
      std::erase_if(edges, [&](const Edge& e) { return e.first == p.process || e.second == p.process; });
    for (const Edge& e : edges) senders.push_back(e.first);
    std::sort(senders.begin(), senders.end());
    const size_t others = std::unique(senders.begin(), senders.end()) - senders.begin();
    return others >= peers_min && (!is_s3(kind_) || same_role > peers_min);
  }

  Losses losses() {
    constexpr int before = 4, during = 4;
    const int warm = sc_.traffic.slow_iterations + 2;
    const Instant from = begin_of(warm), onset = begin_of(warm + before);
    set_slow(sc_.conditions, onset);
    Job job(layout_, sc_.traffic, sc_.conditions, sc_.seed, sc_.start);
    Instant t = onset;
    const Instant usual = (onset - from) / before;
    for (; job.iteration_of_process(0) < static_cast<uint64_t>(warm + before + during) && t < onset + 400 * usual;)
      job.run_until(t += usual / 16 + ns_per_ms);
    Losses l = losses_of(job, sc_.planted.comm, from, onset, t);
    l.iterations_longer = static_cast<double>(t - onset) / (during * static_cast<double>(usual));
    return l;
  }

  static void set_slow(Conditions& conditions, Instant at) {
    for (ProcessConditions& p : conditions.processes) {
      if (p.slow_clock_at < never) p.slow_clock_at = at;
      if (p.late_at < never) p.late_at = at;
    }
    for (BadLink& l : conditions.links) l.slow_at = at;
    for (SlowProxy& p : conditions.slow_proxies) p.at = at;
  }
  double times(Range r) { return s_.log_real(r.low, r.high); }
  int any_process() { return static_cast<int>(s_.below(layout_.processes())); }
  ProcessConditions& of(int p) { return sc_.conditions.processes[p]; }
  void culprit(int p) {
    sc_.planted.processes.push_back(p);
    sc_.planted.text += absl::StrFormat("%s process %d (host %d, gpu %d)", sc_.planted.text.empty() ? "" : ",", p,
                                        layout_.host_of(p), layout_.gpu_of(p));
  }
  void stand_still(int p, char state, bool seen, bool gpu_too) {
    ProcessConditions& c = of(p);
    const Instant at = sc_.planted.at;
    c.host_stops = c.proxy_stops = at;
    if (gpu_too) c.gpu_dies = at;
    sc_.passings.push_back({p, at, state, seen});
  }

  bool plan_h1() {
    const int p = any_process();
    const Instant at = sc_.planted.at;
    switch (kind_) {
      case FaultKind::never_calls: of(p).host_stops = at; break;
      case FaultKind::called_not_launched: of(p).launches_stop = at; break;
      case FaultKind::kernel_never_starts: of(p).gpu_blocked = at; break;
      case FaultKind::stopped: stand_still(p, 'T', true, false); break;
      case FaultKind::killed: stand_still(p, 'X', true, true); break;
      case FaultKind::silent_process: stand_still(p, 'D', true, false); break;
      case FaultKind::host_down: {
        if (layout_.hosts() < 2) return false;
        for (int q = 0; q < layout_.processes(); ++q)
          if (layout_.same_host(p, q)) stand_still(q, 'X', false, true), culprit(q);
        return true;
      }
      default: return false;
    }
    culprit(p);
    return true;
  }

  // One side of a Send and its Recv speaks of another number of bytes.
  bool plan_other_bytes() {
    const int p = any_process();
    int calls = 0;
    for (const Action& a : iteration_of(layout_, sc_.traffic, sc_.seed, p, iteration()))
      calls += a.kind == Action::Kind::calls;
    if (calls == 0 || sc_.traffic.evaluate_every > 0) return false;
    ProgramEdit& e = of(p).edit;
    e.kind = EditKind::other_bytes;
    e.iteration = iteration();
    e.action = static_cast<int>(s_.below(calls));
    e.bytes = s_.chance(0.5) ? sc_.traffic.transfer_bytes / 2 : sc_.traffic.transfer_bytes * 2;
    // As few steps as the slots hold, or more: the other side ends, or waits. Otherwise it does not hang.
    if (s_.chance(0.6)) e.steps = s_.chance(0.5) ? 6 : 34;
    sc_.planted.comm = layout_.comm_of(p, CommKind::pipeline);
    culprit(p);
    sc_.planted.text += absl::StrFormat(", iteration %d, call %d", e.iteration, e.action);
    return true;
  }

  bool plan_h2() {
    if (kind_ == FaultKind::other_bytes) return plan_other_bytes();
    const int p = any_process();
    const auto actions = iteration_of(layout_, sc_.traffic, sc_.seed, p, iteration());
    std::vector<int> shapes;
    for (const Action& a : actions)
      if (a.kind == Action::Kind::collective) shapes.push_back(a.shape);
    ProgramEdit& e = of(p).edit;
    e.iteration = iteration();
    std::vector<int> fitting;
    for (size_t i = 0; i < shapes.size(); ++i)
      if (fits(shapes, i, p)) fitting.push_back(static_cast<int>(i));
    if (fitting.empty()) return false;
    e.action = s_.pick(fitting);
    const int original = shapes[e.action];
    sc_.planted.comm = layout_.comm_of(p, sc_.traffic.shapes[original].comm);
    OpShape other = sc_.traffic.shapes[original];
    switch (kind_) {
      case FaultKind::other_operation:
        other.signature.function = other.signature.function == abi::Function::all_gather ? abi::Function::reduce_scatter
                                                                                         : abi::Function::all_gather;
        break;
      case FaultKind::other_count:
        other.signature.count = s_.chance(0.5) ? other.signature.count / 2 : other.signature.count * 2 + 8;
        if (s_.chance(0.5)) other.steps = other.steps / 2 + 1;  // otherwise the same number of steps: it does not hang
        break;
      case FaultKind::other_type:
        other.signature.datatype =
            other.signature.datatype == abi::Datatype::float16 ? abi::Datatype::bfloat16 : abi::Datatype::float16;
        break;
      case FaultKind::other_reduction: other.signature.reduction = abi::Reduction::max; break;
      case FaultKind::other_root: other.signature.root = 1; break;
      case FaultKind::additional:
        other = sc_.traffic.shapes[original];
        other.signature.count += 17;
        break;
      default: break;
    }
    e.kind = kind_ == FaultKind::skipped       ? EditKind::skip
             : kind_ == FaultKind::additional  ? EditKind::additional
             : kind_ == FaultKind::other_order ? EditKind::swap_with_next
                                               : EditKind::other_signature;
    if (e.kind == EditKind::other_signature || e.kind == EditKind::additional) {
      other.index = static_cast<int>(sc_.traffic.shapes.size());
      e.shape = other.index;
      sc_.traffic.shapes.push_back(other);
    }
    culprit(p);
    sc_.planted.text += absl::StrFormat(", iteration %d, collective %d (%s)", e.iteration, e.action,
                                        name(sc_.traffic.shapes[original].comm));
    return true;
  }

  uint64_t iteration() const { return iteration_; }

  bool fits(const std::vector<int>& shapes, size_t i, int p) const {
    const OpShape& s = sc_.traffic.shapes[shapes[i]];
    if (sc_.traffic.evaluate_every > 0) return false;
    switch (kind_) {
      case FaultKind::other_reduction: return s.signature.reduction == abi::Reduction::sum;
      case FaultKind::other_operation: return s.way == Way::ring || s.way == Way::tree;
      case FaultKind::other_root: return s.way == Way::broadcast;
      case FaultKind::other_count:
      case FaultKind::other_type:
      case FaultKind::additional: return s.way != Way::broadcast && s.way != Way::all_to_all;
      // Skipping one of several equal operations is a skip of the last of them.
      case FaultKind::skipped: {
        for (size_t next = i + 1; next < shapes.size(); ++next)
          if (sc_.traffic.shapes[shapes[next]].comm == s.comm)
            return shapes[next] != shapes[i] && s.way != Way::broadcast;
        return false;
      }
      // Both communicators must share another process than the one that turns them round.
      case FaultKind::other_order: {
        if (i + 1 >= shapes.size()) return false;
        const OpShape& next = sc_.traffic.shapes[shapes[i + 1]];
        const int a = layout_.comm_of(p, s.comm), b = layout_.comm_of(p, next.comm);
        if (a == b || s.way == Way::broadcast || next.way == Way::broadcast) return false;
        for (int q : layout_.comms()[a].members)
          if (q != p && layout_.rank_in(b, q) >= 0) return true;
        return false;
      }
      default: return false;
    }
  }

  // A connection over the network that operations of these shapes use.
  bool choose_link(const std::vector<int>& shapes, int* sender, int* receiver, int* comm) {
    if (shapes.empty()) return false;
    const OpShape& shape = sc_.traffic.shapes[s_.pick(shapes)];
    const int p = any_process(), c = layout_.comm_of(p, shape.comm);
    if (c < 0) return false;
    const CommSpec& spec = layout_.comms()[c];
    const Topology t(layout_, spec, sc_.traffic.channels);
    if (t.nodes() < 2) return false;
    const ChannelGraph& g = t.graph(static_cast<int>(s_.below(t.channels())));
    const std::vector<Edge> edges = rank_edges(t, g, shape.way, spec.ranks());
    if (edges.empty()) return false;
    const auto [a, b] = s_.pick(edges);
    *sender = spec.members[a];
    *receiver = spec.members[b];
    *comm = c;
    return true;
  }
  std::vector<int> regular_shapes() const {
    std::vector<int> v = sc_.traffic.gradients;
    for (int i : {sc_.traffic.tensor_forward, sc_.traffic.loss, sc_.traffic.gather})
      if (i >= 0) v.push_back(i);
    return v;
  }

  bool plan_h3() {
    const Instant at = sc_.planted.at;
    int sender = -1, receiver = -1, comm = -1;
    switch (kind_) {
      case FaultKind::frozen_channel:
      case FaultKind::frozen_group: {
        const int p = any_process();
        const std::vector<int> shapes = regular_shapes();
        if (shapes.empty()) return false;
        const OpShape& shape = sc_.traffic.shapes[s_.pick(shapes)];
        comm = layout_.comm_of(p, shape.comm);
        if (comm < 0 || shape.way == Way::all_to_all) return false;
        FrozenGroup f{p, comm, static_cast<int>(s_.below(sc_.traffic.channels)), -1, at};
        if (kind_ == FaultKind::frozen_group) {
          if (shape.way == Way::nvls) return false;  // there the other groups of the rank wait for it
          f.group = 0;
        }
        sc_.conditions.frozen.push_back(f);
        sc_.planted.comm = comm;
        culprit(p);
        sc_.planted.text += absl::StrFormat(", channel %d of %s", f.channel, layout_.comms()[comm].name);
        return true;
      }
      case FaultKind::dead_gpu: {
        const int p = any_process();
        of(p).gpu_dies = at;
        culprit(p);
        return true;
      }
      case FaultKind::stuck_proxy:
      case FaultKind::dead_nic: {
        if (!choose_link(regular_shapes(), &sender, &receiver, &comm)) return false;
        (kind_ == FaultKind::stuck_proxy ? of(sender).proxy_stops : of(sender).nic_dead) = at;
        sc_.planted.comm = comm;
        culprit(sender);
        return true;
      }
      case FaultKind::cut_link: {
        if (!choose_link(regular_shapes(), &sender, &receiver, &comm)) return false;
        BadLink l{sender, receiver};
        l.cut_at = at;
        sc_.conditions.links.push_back(l);
        sc_.planted.comm = comm;
        link(sender, receiver);
        return true;
      }
      default: return false;
    }
  }
  void link(int sender, int receiver) {
    culprit(sender);
    sc_.planted.sender = sender;
    sc_.planted.receiver = receiver;
    sc_.planted.text += absl::StrFormat(", link %d -> %d", sender, receiver);
  }

  // ---- slow --------------------------------------------------------------------------------------------------------

  // Usual longest time of an operation: what it takes, and what its ranks differ by when they come.
  double base_ns(const OpShape& s, double compute_ns) const {
    const double spread = s.comm == CommKind::tensor ? sc_.traffic.jitter : sc_.traffic.jitter + sc_.traffic.imbalance;
    return static_cast<double>(s.duration_ns) * 1.1 + spread * compute_ns;
  }
  // The first collective after computation that this process takes part in.
  bool computed(int p, const OpShape** shape, double* compute_ns) const {
    const double compute = static_cast<double>(sc_.traffic.compute_ns);
    if (sc_.sizes.tensor > 1) {
      *shape = &sc_.traffic.shapes[sc_.traffic.tensor_forward];
      *compute_ns = 0.5 * compute;
    } else if (sc_.sizes.data > 1) {
      *shape = &sc_.traffic.shapes[sc_.traffic.gradients.front()];
      *compute_ns = 3 * compute * sc_.traffic.microbatches;
    } else {
      return false;
    }
    return layout_.comm_of(p, (*shape)->comm) >= 0;
  }

  int operations_of_iteration(int p) const {
    const std::vector<Action> actions = iteration_of(layout_, sc_.traffic, sc_.seed, p, 10);
    return static_cast<int>(std::count_if(actions.begin(), actions.end(), [](const Action& a) {
      return a.kind == Action::Kind::collective || a.kind == Action::Kind::calls;
    }));
  }

  bool be_late(int p, bool clock, bool now_and_then) {
    const OpShape* shape = nullptr;
    double compute_ns = 0;
    if (!computed(p, &shape, &compute_ns)) return false;
    const double extra = times(strength_.operations) * base_ns(*shape, compute_ns);
    sc_.planted.comm = layout_.comm_of(p, shape->comm);
    ProcessConditions& c = of(p);
    if (clock) {
      c.slow_clock_at = sc_.planted.at;
      c.slow_clock_factor = 1 + extra / compute_ns;
      return extra <= static_cast<double>(lateness_max_ns);
    }
    sc_.traffic.eager = true;  // otherwise the host is ahead of the GPU, and nobody sees that it is late
    c.late_at = sc_.planted.at;
    // What the GPU computes meanwhile hides as much.
    c.late_ns = static_cast<Nanoseconds>(extra + (sc_.sizes.tensor > 1 ? compute_ns : 0));
    c.late_every = 1;
    if (now_and_then) {
      c.late_every = static_cast<int>(s_.range(2, 4));
      c.late_ns *= 2;
      // Else it is always late to the same operations, and which ones the rehearsal does not know.
      if (slowness_.mild && std::gcd(operations_of_iteration(p), c.late_every) != 1) return false;
    }
    // A rank that is awaited for seconds is suspected to hang, and rightly so.
    return c.late_ns <= lateness_max_ns;
  }

  bool throttle() {
    int sender = -1, receiver = -1, comm = -1;
    if (sc_.traffic.gradients.empty() || !choose_link(sc_.traffic.gradients, &sender, &receiver, &comm)) return false;
    BadLink l{sender, receiver};
    l.slow_at = sc_.planted.at;
    l.slow_factor = times(strength_.link);
    sc_.conditions.links.push_back(l);
    sc_.planted.comm = comm;
    sc_.planted.sender = sender;
    sc_.planted.receiver = receiver;
    return true;
  }
  bool delay(int* process, bool seldom = false) {
    int receiver = -1, comm = -1;
    if (sc_.traffic.gradients.empty() || !choose_link(sc_.traffic.gradients, process, &receiver, &comm)) return false;
    double longest = 0;
    for (int g : sc_.traffic.gradients) {
      const OpShape& s = sc_.traffic.shapes[g];
      const int steps = s.way == Way::ring ? std::max(s.steps, 2 * (sc_.sizes.data - 1)) : s.steps;
      longest = std::max(longest, base_ns(s, 0.3 * static_cast<double>(sc_.traffic.compute_ns)) / steps);
    }
    SlowProxy p{*process, sc_.planted.at};
    const auto slow_ns = static_cast<Nanoseconds>(longest * times(strength_.operations));
    if (seldom) {
      const double period_ns = static_cast<double>(slow_ns) * s_.log_real(2, 8);
      p.period_ns = std::max(shortest_pause_ns, static_cast<Nanoseconds>(period_ns));
      p.running_ns = static_cast<Nanoseconds>(static_cast<double>(p.period_ns) * s_.log_real(0.01, 0.1));
    } else {
      p.delay_ns = slow_ns;
    }
    sc_.conditions.slow_proxies.push_back(p);
    sc_.planted.comm = comm;
    return true;
  }

  bool plan_slow() {
    const int p = any_process();
    switch (kind_) {
      case FaultKind::late_host:
      case FaultKind::slow_clock:
      case FaultKind::pauses:
        if (!be_late(p, kind_ == FaultKind::slow_clock, kind_ == FaultKind::pauses)) return false;
        culprit(p);
        return true;
      case FaultKind::throttled_link:
        if (!throttle()) return false;
        link(sc_.planted.sender, sc_.planted.receiver);
        return true;
      case FaultKind::delaying_proxy:
      case FaultKind::seldom_proxy: {
        int q = -1;
        if (!delay(&q, kind_ == FaultKind::seldom_proxy)) return false;
        culprit(q);
        return true;
      }
      // Both in one communicator, at different ranks.
      case FaultKind::late_and_throttled:
      case FaultKind::slow_clock_and_delaying: {
        if (sc_.sizes.tensor > 1) return false;
        int q = -1;
        const bool link_too = kind_ == FaultKind::late_and_throttled;
        if (link_too ? !throttle() : !delay(&q)) return false;
        if (link_too) q = sc_.planted.sender;
        if (p == q || layout_.rank_in(sc_.planted.comm, p) < 0) return false;
        const int comm = sc_.planted.comm;
        if (!be_late(p, !link_too, false)) return false;
        sc_.planted.comm = comm;
        culprit(p);
        culprit(q);
        return true;
      }
      default: return false;
    }
  }

  // ---- slow, in the pipeline
  // -----------------------------------------------------------------------------------------

  // By how much each transfer is to take longer, so that an iteration does noticeably.
  double transfer_extra_ns() {
    return times(strength_.transfers) * sc_.iteration_s * 1e9 / (2.0 * sc_.traffic.microbatches);
  }

  // Of one transfer's connection, or of the link between two hosts with all that crosses it in this direction.
  bool throttle_transfers(const PipelineNetwork& network) {
    const bool wide = s_.chance(0.5);
    const std::vector<Edge>& candidates = wide ? network.between_hosts() : network.links();
    if (candidates.empty()) return false;
    const Edge e = s_.pick(candidates);
    const std::vector<Edge> slow = wide ? network.beside(e) : std::vector<Edge>{e};
    const double factor = 1 + 2 * transfer_extra_ns() / static_cast<double>(sc_.traffic.transfer_ns);
    for (const auto& [sender, receiver] : slow) {
      BadLink l{sender, receiver};
      l.slow_at = sc_.planted.at;
      l.slow_factor = factor;
      sc_.conditions.links.push_back(l);
    }
    sc_.planted.comm = layout_.comm_of(e.first, CommKind::pipeline);
    link(e.first, e.second);
    sc_.planted.links = slow;
    if (wide)
      sc_.planted.text +=
          absl::StrFormat(", all from host %d to host %d", layout_.host_of(e.first), layout_.host_of(e.second));
    return true;
  }

  bool delay_transfers(const PipelineNetwork& network) {
    if (network.senders().empty()) return false;
    SlowProxy p{s_.pick(network.senders()), sc_.planted.at};
    const double extra_ns = transfer_extra_ns();
    if (kind_ == FaultKind::seldom_proxy) {
      p.period_ns = std::max(shortest_pause_ns, static_cast<Nanoseconds>(extra_ns * s_.real(0.3, 1)));
      p.running_ns = static_cast<Nanoseconds>(static_cast<double>(p.period_ns) * s_.log_real(0.01, 0.1));
    } else {
      p.delay_ns = static_cast<Nanoseconds>(extra_ns / pair_steps);
    }
    sc_.conditions.slow_proxies.push_back(p);
    sc_.planted.comm = layout_.comm_of(p.process, CommKind::pipeline);
    culprit(p.process);
    return true;
  }

  bool plan_slow_pipeline() {
    const PipelineNetwork network(layout_, sc_.traffic.channels);
    if (!(kind_ == FaultKind::throttled_link ? throttle_transfers(network) : delay_transfers(network))) return false;
    sc_.planted.text += ", in the pipeline";
    return true;
  }

  const FaultKind kind_;
  const Slowness slowness_;
  const Strength strength_;
  Stream& s_;
  Scenario& sc_;
  const Layout layout_;
  Conditions healthy_;
  std::unique_ptr<Job> rehearsal_;
  Instant rehearsed_ = 0;
  std::vector<Instant> begins_;  // by iteration
  uint64_t iteration_ = 0;
  Stream before_{0, ""};
  size_t shapes_before_ = 0;
};

}  // namespace

bool plan_fault(FaultKind kind, Slowness slowness, Stream& s, Scenario& sc) {
  return Planner(kind, slowness, s, sc).plan();
}

}  // namespace ccld::sim
