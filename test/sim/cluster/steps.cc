#include "test/sim/cluster/steps.h"

#include <algorithm>

namespace ccld::sim {
namespace {

// Something that stops at `stops` does nothing later.
constexpr Instant unless_stopped(Instant t, Instant stops) { return t > stops ? never : t; }

}  // namespace

StepRun::StepRun(std::shared_ptr<const StepPlan> plan, const StepTimes& cost, const Conditions& conditions, int comm,
                 const std::vector<int>& members, const std::vector<RankStart>& starts)
    : plan_(std::move(plan)), cost_(cost), starts_(starts) {
  steps_ = 0;
  for (size_t r = 0; r < starts_.size(); ++r) steps_ = std::max(steps_, steps_of(static_cast<int>(r)));
  stride_ = steps_ + 1;
  int over_network = 0;
  place_.reserve(plan_->connections.size());
  for (const Connection& c : plan_->connections) place_.push_back(c.network ? over_network++ : -1);
  const size_t times = static_cast<size_t>(over_network) * stored_stages * static_cast<size_t>(steps_),
               iterations = plan_->groups.size() * static_cast<size_t>(stride_);
  times_ = std::make_unique_for_overwrite<Instant[]>(times);
  iterations_ = std::make_unique_for_overwrite<Instant[]>(iterations);
  bool equal = true;
  for (size_t r = 0; r < starts_.size(); ++r) equal &= steps_of(static_cast<int>(r)) == steps_;
  if (!equal) {  // otherwise everything is written below
    std::fill_n(times_.get(), times, never);
    std::fill_n(iterations_.get(), iterations, never);
  }
  run(conditions, comm, members);
}

void StepRun::run(const Conditions& conditions, int comm, const std::vector<int>& members) {
  const StepPlan& plan = *plan_;
  frozen_at_.reserve(plan.groups.size());
  total_.reserve(plan.groups.size());
  for (const Group& g : plan.groups) {
    Instant at = conditions.processes[members[g.rank]].gpu_dies;
    for (const FrozenGroup& f : conditions.frozen)
      if (f.process == members[g.rank] && f.comm == comm && (f.channel < 0 || f.channel == g.channel) &&
          (f.group < 0 || f.group == g.number))
        at = std::min(at, f.at);
    frozen_at_.push_back(at);
    total_.push_back(steps_of(g.rank) + g.lag);
  }
  ends_.reserve(plan.connections.size());
  for (const Connection& c : plan.connections) {
    const int s = members[c.sender], r = members[c.receiver];
    Ends e{conditions.processes[s].proxy_stops,
           conditions.processes[r].proxy_stops,
           conditions.processes[s].nic_dead,
           never,
           never,
           never,
           1,
           0,
           {},
           {}};
    for (const BadLink& l : conditions.links) {
      if (l.sender != s || l.receiver != r) continue;
      e.cut_at = std::min(e.cut_at, l.cut_at);
      e.slow_at = l.slow_at;
      e.slow_factor = l.slow_factor;
    }
    for (const SlowProxy& p : conditions.slow_proxies) {
      if (p.process == s) e.delay_at = p.at, e.delay_ns = p.delay_ns;
      if (p.period_ns == 0) continue;
      if (p.process == s) e.sender_visits = {p.at, p.period_ns, p.running_ns};
      if (p.process == r) e.receiver_visits = {p.at, p.period_ns, p.running_ns};
    }
    ends_.push_back(e);
    if (!c.network) continue;
    // Receives are posted as soon as the operation is launched and the one before has ended.
    const int c_index = static_cast<int>(&c - plan.connections.data());
    const Instant taken_up = std::max(starts_[c.receiver].launch, starts_[c.receiver].after);
    for (int k = 0; k < std::min(plan.slots, steps_of(c.receiver)); ++k)
      set(c_index, At::receive_posted, k) =
          unless_stopped(e.receiver_visits.from(after(taken_up, cost_.proxy_ns)), e.receiver_proxy_stops);
  }
  for (int i = 0; i < stride_; ++i) {
    for (size_t g_index = 0; g_index < plan.groups.size(); ++g_index) {
      const Group& g = plan.groups[g_index];
      if (i >= total_[g_index]) continue;
      const int mine = steps_of(g.rank);
      Instant t = i == 0 ? starts_[g.rank].begin : iterations_[g_index * stride_ + i - 1];
      if (i >= g.lag)
        for (int c : g.receives)
          t = std::max(t, i - g.lag < steps_of(plan.connections[c].sender) ? at(c, At::given, i - g.lag) : never);
      if (i < mine)
        for (int c : g.sends) t = std::max(t, freed(c, i));
      t = unless_stopped(after(t, cost_.gpu_ns), frozen_at_[g_index]);
      iterations_[g_index * stride_ + i] = t;
      if (i >= g.lag)
        for (int c : g.receives) {
          const int k = i - g.lag + plan.slots;
          if (k < mine && plan.connections[c].network)
            set(c, At::receive_posted, k) =
                unless_stopped(ends_[c].receiver_visits.from(after(t, cost_.proxy_ns)), ends_[c].receiver_proxy_stops);
        }
      if (i < mine)
        for (int c : g.sends)
          if (plan.connections[c].network) move_over_network(c, i);
    }
  }
}

void StepRun::move_over_network(int c, int k) {
  Ends& e = ends_[c];
  const auto before = [&](At stage) { return k > 0 ? stored(c, stage, k - 1) : 0; };
  const bool awaited = k < steps_of(plan_->connections[c].receiver);
  const Instant receive = awaited ? at(c, At::receive_posted, k) : never;
  Instant handed = std::max(at(c, At::posted, k), before(At::handed));
  if (!cost_.buffered) handed = std::max(handed, after(receive, cost_.latency_ns));
  handed = e.sender_visits.from(after(handed, cost_.proxy_ns + (handed >= e.delay_at ? e.delay_ns : 0)));
  handed = unless_stopped(unless_stopped(handed, e.sender_proxy_stops), e.nic_dead);
  set(c, At::handed, k) = handed;

  Instant wire = std::max(handed, e.wire_free);
  const double factor = wire >= e.slow_at ? e.slow_factor : 1;
  wire = unless_stopped(after(wire, static_cast<Nanoseconds>(static_cast<double>(cost_.wire_ns) * factor)), e.cut_at);
  e.wire_free = wire;
  const Instant delivered = after(wire, cost_.latency_ns);
  const Instant arrived = unless_stopped(e.receiver_visits.from(std::max({delivered, receive, before(At::arrived)})),
                                         e.receiver_proxy_stops);
  set(c, At::arrived, k) = arrived;
  Instant sent = cost_.buffered ? handed : after(delivered, cost_.latency_ns);
  if (cost_.buffered && k >= cost_.buffer_steps) sent = std::max(sent, at(c, At::arrived, k - cost_.buffer_steps));
  sent = after(sent, cost_.proxy_ns / 2);
  set(c, At::sent, k) = unless_stopped(e.sender_visits.from(std::max(sent, before(At::sent))), e.sender_proxy_stops);
  set(c, At::given, k) = unless_stopped(
      e.receiver_visits.from(after(std::max(arrived, before(At::given)), cost_.proxy_ns)), e.receiver_proxy_stops);
}

Nanoseconds StepRun::away_ns(int c, bool sender, Instant from, Instant to, Nanoseconds unseen_ns) const {
  const Visits& v = sender ? ends_[c].sender_visits : ends_[c].receiver_visits;
  if (v.at >= to) return 0;
  Nanoseconds sum = 0;
  for (Instant run = v.at + std::max<Instant>(0, from - v.at) / v.period_ns * v.period_ns; run < to; run += v.period_ns)
    sum += std::max<Nanoseconds>(0, std::min(to, run + v.period_ns) - std::max(from, run + v.running_ns) - unseen_ns);
  return sum;
}

Instant StepRun::freed(int c, int step) const {
  const int k = step - plan_->slots;
  if (k < 0) return 0;
  if (plan_->connections[c].network) return after(at(c, At::sent, k), cost_.proxy_ns / 2);
  return k < steps_of(plan_->connections[c].receiver) ? at(c, At::consumed, k) : never;
}

Instant StepRun::at(int c, At stage, int k) const {
  const Connection& connection = plan_->connections[c];
  switch (stage) {
    case At::posted: return k < steps_of(connection.sender) ? iteration(connection.sender_group, k) : never;
    case At::consumed:
      return k < steps_of(connection.receiver)
                 ? iteration(connection.receiver_group, k + plan_->groups[connection.receiver_group].lag)
                 : never;
    default: break;
  }
  if (connection.network) return stored(c, stage, k);
  // Within a node the receiver sees what the sender has posted.
  return after(at(c, At::posted, k), cost_.latency_ns / 4);
}

int StepRun::count(int c, At stage, Instant t) const {
  int low = 0, high = steps_;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (at(c, stage, middle) <= t)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

Instant StepRun::last(int c, At stage, Instant t) const {
  const int n = count(c, stage, t);
  return n == 0 ? -1 : at(c, stage, n - 1);
}

int StepRun::done(int group, Instant t) const {
  const Instant* first = iterations_.get() + static_cast<std::ptrdiff_t>(group) * stride_;
  return static_cast<int>(std::upper_bound(first, first + total_[group], t) - first);
}

Instant StepRun::channel_end(int rank, int channel) const {
  Instant end = 0;
  for (int g : plan_->by_rank[rank])
    if (plan_->groups[g].channel == channel)
      end = std::max(end, total_[g] == 0 ? starts_[rank].begin : iteration(g, total_[g] - 1));
  return end;
}

Instant StepRun::end(int rank) const {
  Instant end = starts_[rank].begin;
  for (int g : plan_->by_rank[rank])
    end = std::max(end, total_[g] == 0 ? starts_[rank].begin : iteration(g, total_[g] - 1));
  return end;
}

}  // namespace ccld::sim
