#include "benchmarks/scale/job.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

namespace ccld::bench {
namespace {

constexpr uint32_t age_never = 0xffffffffu;
constexpr uint32_t step_base = 4000;
constexpr int64_t slots = 8;  // steps in flight of a connection
constexpr int siblings = gpus_per_node - 1;

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int64_t period_ns(Group g) { return ns_per_s / rounds_per_s(g); }
size_t index(Group g) { return static_cast<size_t>(g); }
uint32_t ms(int64_t ns) { return static_cast<uint32_t>(std::max<int64_t>(ns, 0) / ns_per_ms); }
std::string host_of(int rank) { return "node" + std::to_string(rank / gpus_per_node); }
std::string bus_of(int rank) { return "0000:" + std::to_string(10 + rank % gpus_per_node) + ":00.0"; }
uint32_t pid_of(int rank) { return 1000 + static_cast<uint32_t>(rank % gpus_per_node); }

uint8_t u8(abi::Direction d) { return static_cast<uint8_t>(d); }

wire::LaneState lane(uint32_t token, int channel, abi::Direction direction, int peer, int64_t steps, uint32_t moved_ms,
                     abi::WaitKind wait, uint32_t poll_ms) {
  const auto current = step_base + static_cast<uint32_t>(steps);
  const bool waits = wait != abi::WaitKind::none;
  return {token, current, step_base, waits ? current + 1 : 0, waits ? current : 0, peer, waits ? moved_ms : 0, poll_ms,
          moved_ms, static_cast<uint16_t>(channel), u8(direction), 0, 0, static_cast<uint8_t>(wait), uint8_t{waits}, 0};
}

}  // namespace

Job::Job(int ranks, uint64_t seed) : layout_(ranks), order_(ranks), phase_ns_(ranks), sent_(ranks) {
  std::mt19937_64 random(seed);
  for (int64_t& phase : phase_ns_) phase = static_cast<int64_t>(random() % flush_ns);
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [this](int a, int b) { return phase_ns_[a] < phase_ns_[b]; });
}

uint64_t Job::monotonic_ns(int rank, int64_t now_ns) const {
  return static_cast<uint64_t>(now_ns + rank / gpus_per_node * 7 * ns_per_s / 1000);
}

// The members of a group end an operation together; each begins it when its own computation is over.
Job::Times Job::times(Group g, int rank, uint64_t op) const {
  const int64_t period = period_ns(g), end = start_ns + static_cast<int64_t>(op) * period;
  const auto jitter = static_cast<int64_t>(mixed(static_cast<uint64_t>(rank) << 32 ^ op ^ index(g) << 28) % 1000);
  const int64_t begin = end - period * 4 / 10 - jitter * period / 20000;
  return {begin - period / 20, begin, end};
}

uint64_t Job::newest_op(Group g, int64_t now_ns) const {
  return now_ns <= start_ns ? 0 : static_cast<uint64_t>((now_ns - start_ns) / period_ns(g));
}

// Two kinds of operation alternate in each group of a node, and one is all that the job as a whole has.
wire::OpSignature Job::signature(Group g, uint64_t op) const {
  const bool odd = op % 2 == 1;
  const abi::Function f = g == Group::data ? (odd ? abi::Function::reduce_scatter : abi::Function::all_gather)
                                           : abi::Function::all_reduce;
  const uint64_t count = g == Group::world ? 4096 : g == Group::tensor ? (odd ? 1u << 23 : 1u << 22) : 1u << 25;
  return {count,
          -1,
          static_cast<uint8_t>(f),
          static_cast<uint8_t>(abi::Datatype::bfloat16),
          static_cast<uint8_t>(abi::Reduction::sum),
          static_cast<uint8_t>(abi::Algorithm::ring),
          static_cast<uint8_t>(abi::Protocol::simple),
          0,
          static_cast<uint16_t>(layout_.channels_of(g))};
}

void Job::announce(int rank, probe::BatchEncoder& out) const {
  for (Group g : groups) {
    const int member = layout_.member_of(g, rank);
    probe::CommUpMessage m;
    m.identity.comm_uid = layout_.uid_of(g, rank);
    m.identity.comm_hash = mixed(m.identity.comm_uid);
    m.identity.node = layout_.node_of(g, member);
    m.identity.node_count = layout_.node_of(g, layout_.size_of(g) - 1) + 1;
    m.identity.local_rank = g == Group::data ? 0 : member % gpus_per_node;
    m.identity.gpu_bus_id = bus_of(rank);
    m.identity.host = host_of(rank);
    m.identity.comm_name = g == Group::world ? "default_pg" : g == Group::tensor ? "tp" : "dp";
    m.identity.channels = layout_.topology(g, member);
    m.connections = layout_.connections(g, member);
    m.comm_number = static_cast<uint32_t>(index(g)) + 1;
    m.rank = member;
    m.rank_count = layout_.size_of(g);
    m.cuda_device = rank % gpus_per_node;
    out.add(m);
  }
}

size_t Job::flush(int rank, int64_t now_ns, probe::BatchEncoder& out) {
  const int64_t device_ns = 5 * ns_per_s + static_cast<int64_t>(mixed(rank) % ns_per_s);
  size_t rounds = 0;
  for (Group g : groups) {
    uint64_t& sent = sent_[rank].op[index(g)];
    probe::RoundsMessage m;
    m.comm_uid = layout_.uid_of(g, rank);
    m.rank = layout_.member_of(g, rank);
    for (const uint64_t newest = newest_op(g, now_ns); sent < newest;) {
      const uint64_t op = ++sent;
      const Times t = times(g, rank, op);
      probe::FinishedRound r;
      r.op_seq = op;
      r.signature = signature(g, op);
      r.enter_monotonic_ns = r.launch_monotonic_ns = monotonic_ns(rank, t.enter);
      r.begin_device_ns = static_cast<uint64_t>(t.begin + device_ns);
      r.end_device_ns = static_cast<uint64_t>(t.end + device_ns);
      r.send_steps = r.recv_steps = 2 * static_cast<uint32_t>(layout_.size_of(g) - 1) * layout_.channels_of(g);
      r.samples = ms(t.end - t.begin) / 5;
      r.send_changes = r.recv_changes = r.samples;
      r.flags = static_cast<uint8_t>(wire::RoundFlags::counts_valid);
      r.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
      m.rounds.push_back(r);
    }
    if (m.rounds.empty()) continue;
    rounds += m.rounds.size();
    out.add(m);
  }
  return rounds;
}

// A connection's proxy stands beside each lane that leaves the node.
void Job::add_lane(probe::InFlightMessage& m, Group g, int member, const wire::LaneState& l) const {
  m.lanes.push_back(l);
  if (layout_.node_of(g, l.peer()) == layout_.node_of(g, member)) return;
  const uint64_t at = l.current_step();
  m.proxies.emplace_back(l.base_step(), at + slots, at, at, at, 1u << 20, 1, l.peer(), l.channel() % gpus_per_node, 1,
                         l.moved_age_ms(), l.channel(), l.direction(), uint8_t{0});
}

void Job::running_kernel(Group g, int rank, int64_t now_ns, uint64_t op, probe::InFlightMessage& m) const {
  const Times t = times(g, rank, op);
  const int member = layout_.member_of(g, rank), channels = layout_.channels_of(g);
  const auto token = static_cast<uint32_t>(op);
  probe::OperationInFlight o;
  o.op_seq = op;
  o.signature = signature(g, op);
  o.plan = token;
  o.enter_age_ms = o.launch_age_ms = ms(now_ns - t.enter);
  o.launched = true;
  o.begun = now_ns > t.begin;
  o.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
  m.kernel_plan = token;
  const auto steps = (now_ns - t.begin) / (100 * 1000);
  for (int c = 0; c < channels; ++c) {
    o.channels.emplace_back(token, static_cast<uint16_t>(c), o.begun, false, ms(now_ns - t.begin), 1, steps, steps);
    if (!o.begun) continue;
    const probe::ChannelTopology n = layout_.neighbours(g, member, c);
    add_lane(m, g, member, lane(token, c, abi::Direction::recv, n.ring_prev, steps, 0, abi::WaitKind::data, 0));
    add_lane(m, g, member, lane(token, c, abi::Direction::send, n.ring_next, steps, 0, abi::WaitKind::none, 0));
  }
  m.operations.push_back(o);
  m.operations_total = 1;
}

probe::InFlightMessage Job::snapshot(Group g, int rank, int64_t now_ns) const {
  const uint64_t done = newest_op(g, now_ns);
  const bool inside = now_ns >= times(g, rank, done + 1).enter;
  probe::InFlightMessage m;
  m.comm_uid = layout_.uid_of(g, rank);
  m.rank = layout_.member_of(g, rank);
  m.sample_monotonic_ns = monotonic_ns(rank, now_ns);
  m.completed_op_seq = done;
  m.entered_op_seq = m.launched_op_seq = done + (inside ? 1 : 0);
  m.movement = done * 100;
  m.proxy_tick_age_ms = g == Group::tensor ? age_never : 1;
  m.state = static_cast<uint32_t>(abi::CommState::ready);
  if (inside) running_kernel(g, rank, now_ns, done + 1, m);
  return m;
}

void Job::add_health(int rank, probe::BatchEncoder& out) const {
  probe::HealthMessage health;
  health.health.samples = sent_[rank].batches * 100;
  const int first = rank / gpus_per_node * gpus_per_node;
  for (int other = first; other < first + gpus_per_node; ++other)
    if (other != rank) health.siblings.push_back({pid_of(other), 77, 'S', 20});
  out.add(health);

  probe::MetricsMessage metrics;
  const auto value = static_cast<int64_t>(sent_[rank].batches);
  const auto add = [&](abi::MetricId first_id, abi::MetricId last_id, const std::string& instance) {
    for (int id = static_cast<int>(first_id); id <= static_cast<int>(last_id); ++id)
      metrics.metrics.push_back({static_cast<abi::MetricId>(id), instance, value + id});
  };
  using abi::MetricId;
  add(MetricId::agent_samples, MetricId::agent_control_refused, "");
  add(MetricId::process_threads_running, MetricId::process_starved_ns, "");
  add(MetricId::cgroup_throttled_periods, MetricId::cgroup_memory_high_events, "");
  add(MetricId::pressure_cpu_some_us, MetricId::host_processors, "");
  add(MetricId::gpu_sm_clock_mhz, MetricId::gpu_pcie_replays, bus_of(rank));
  for (int port = 0; port < gpus_per_node; ++port) {
    const std::string instance = "mlx5_" + std::to_string(port) + ":1";
    metrics.metrics.push_back({MetricId::port_state, instance, 4});
    add(MetricId::port_rate_mbps, MetricId::port_out_of_sequence, instance);
  }
  out.add(metrics);

  probe::NetQueuesMessage queues;
  for (int q = 0; q < 16; ++q)
    queues.queues.emplace_back(0x7f0000000000u + q, 2, 1000 + value, 998 + value, 1 << 20, 2, 0, q % gpus_per_node,
                               400u + q, 1000, 1, 1, static_cast<uint32_t>(abi::NetKind::infiniband));
  for (int d = 0; d < gpus_per_node; ++d) queues.device_names.push_back("mlx5_" + std::to_string(d));
  out.add(queues);
}

void Job::heartbeat(int rank, int64_t now_ns, probe::BatchEncoder& out) const {
  for (Group g : groups) out.add(snapshot(g, rank, now_ns));
  add_health(rank, out);
}

// A ring at standstill. A frozen rank has gone through `turns` iterations of its loop, an absent one through none; the
// rank at distance d behind it gets as many further as it finds data, until the slots in front of it are full.
void Job::hang(int rank, const Hang& h, int64_t now_ns, probe::BatchEncoder& out) const {
  constexpr int64_t turns = 3;
  const bool absent = h.fault == Fault::absent_rank && rank == h.rank;
  const uint32_t age = ms(now_ns - h.began_ns);
  const int n = layout_.ranks();
  probe::InFlightMessage m = snapshot(Group::world, rank, start_ns);
  m.sample_monotonic_ns = monotonic_ns(rank, now_ns);
  m.completed_op_seq = h.op - 1;
  m.entered_op_seq = m.launched_op_seq = absent ? h.op - 1 : h.op;
  m.movement = h.op * 100;
  m.moved_age_ms = age;
  m.late = age >= 1000;
  m.operations.clear();
  m.lanes.clear();
  m.proxies.clear();
  m.operations_total = 0;
  if (!absent) {
    const auto token = static_cast<uint32_t>(h.op);
    probe::OperationInFlight o;
    o.op_seq = h.op;
    o.signature = signature(Group::world, h.op);
    o.plan = m.kernel_plan = token;
    o.enter_age_ms = o.launch_age_ms = age;
    o.launched = o.begun = true;
    o.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
    const int64_t s = h.fault == Fault::absent_rank ? 0 : turns, all = 2 * (n - 1);
    for (int c = 0; c < layout_.channels_of(Group::world); ++c) {
      const probe::ChannelTopology t = layout_.neighbours(Group::world, rank, c);
      const bool ended = h.fault == Fault::frozen_channel && c != h.channel;
      const bool frozen = h.fault == Fault::frozen_channel && !ended && rank == h.rank;
      // Distance along this channel's ring.
      const int local = gpus_per_node, first = c % local;
      const auto place = [&](int r) { return r / local * local + (r % local - first + local) % local; };
      const int64_t d = (place(rank) - place(h.rank) + n) % n;
      const int64_t data = s + d, credit = std::max<int64_t>(s - 1, 0) + slots + (slots - 1) * (n - d - 1);
      const int64_t sends = ended ? all : d == 0 ? s : std::min({data, credit, all});
      const int64_t recvs = ended ? all : std::max<int64_t>(sends - 1, 0);
      const bool waits = !ended && !frozen;
      const abi::WaitKind recv = waits && data <= credit ? abi::WaitKind::data : abi::WaitKind::none;
      const abi::WaitKind send = waits && data > credit ? abi::WaitKind::credit : abi::WaitKind::none;
      const auto poll = [&](abi::WaitKind wait) { return wait != abi::WaitKind::none ? 1 : frozen ? age : age_never; };
      o.channels.emplace_back(token, static_cast<uint16_t>(c), true, ended, age, waits ? 1 : age, sends, recvs);
      add_lane(m, Group::world, rank, lane(token, c, abi::Direction::recv, t.ring_prev, recvs, age, recv, poll(recv)));
      add_lane(m, Group::world, rank, lane(token, c, abi::Direction::send, t.ring_next, sends, age, send, poll(send)));
    }
    m.operations.push_back(o);
    m.operations_total = 1;
  }
  out.add(m);
  for (Group g : {Group::tensor, Group::data}) {
    probe::InFlightMessage idle = snapshot(g, rank, start_ns);
    idle.sample_monotonic_ns = m.sample_monotonic_ns;
    idle.completed_op_seq = idle.entered_op_seq = idle.launched_op_seq = sent_[rank].op[index(g)];
    idle.operations.clear();
    idle.lanes.clear();
    idle.proxies.clear();
    idle.operations_total = 0;
    idle.movement = idle.completed_op_seq * 100;
    idle.moved_age_ms = age;
    out.add(idle);
  }
}

size_t Job::recover(int rank, const Hang& h, int64_t now_ns, probe::BatchEncoder& out) const {
  const int64_t device_ns = 5 * ns_per_s + static_cast<int64_t>(mixed(rank) % ns_per_s);
  probe::RoundsMessage m;
  m.comm_uid = layout_.uid_of(Group::world, rank);
  m.rank = rank;
  probe::FinishedRound r;
  r.op_seq = h.op;
  r.signature = signature(Group::world, h.op);
  r.enter_monotonic_ns = r.launch_monotonic_ns = monotonic_ns(rank, h.began_ns);
  r.begin_device_ns = static_cast<uint64_t>(h.began_ns + device_ns);
  r.end_device_ns = static_cast<uint64_t>(now_ns + device_ns);
  r.flags = static_cast<uint8_t>(wire::RoundFlags::counts_valid);
  r.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
  m.rounds.push_back(r);
  out.add(m);
  return 1;
}

probe::BatchEncoder::Bytes Job::finish(int rank, int64_t now_ns, probe::BatchEncoder& encoder) {
  probe::Sender sender;
  sender.job = "train";
  sender.host = host_of(rank);
  char boot_id[40];
  snprintf(boot_id, sizeof boot_id, "6ba7b810-9dad-11d1-80b4-%012x", static_cast<unsigned>(rank / gpus_per_node));
  sender.boot_id = boot_id;
  sender.pid = pid_of(rank);
  sender.pid_start_ticks = 77;
  sender.nccl_version = 22907;
  return encoder.finish(sender, ++sent_[rank].batches, now_ns, monotonic_ns(rank, now_ns));
}

}  // namespace ccld::bench
