#include "test/support/telemetry/stranger.h"

namespace ccld::fake {

using namespace ccld::decision;

Batch Stranger::batch(Nanoseconds now_ns) {
  Batch b;
  const auto pid = static_cast<uint32_t>(1 + below(6));
  b.process = {chance(8) ? name() : "host", chance(8) ? "" : "boot", pid, 0, chance(8) ? 1u : pid};
  b.job = chance(8) ? name() : "job";
  b.batch_seq = chance(2) ? static_cast<uint64_t>(below(64)) : 0;
  b.sent_monotonic_ns = time_ns(now_ns);
  b.sent_realtime_ns = static_cast<int64_t>(time_ns(now_ns));
  for (int n = 1 + below(6); n > 0; --n) b.payloads.push_back(payload(now_ns));
  return b;
}

// Around now mostly; now and then at an end of what a clock may say.
uint64_t Stranger::time_ns(Nanoseconds now_ns) {
  constexpr uint64_t time_ns_max = uint64_t{1} << 62;
  switch (below(16)) {
    case 0: return 0;
    case 1: return time_ns_max;
    case 2: return random();
    default: return static_cast<uint64_t>(now_ns) - random() % static_cast<uint64_t>(now_ns);
  }
}

std::string Stranger::name() {
  const char* const names[] = {"", "host", "\"quoted\\", "<b>", "a b", "{x=\"y\"}", "line\xe2\x80\xa8two", "\xd7\x90"};
  return chance(16) ? std::string(255, 'x') : names[below(8)];
}

Signature Stranger::signature() {
  Signature s;
  s.function = static_cast<abi::Function>(below(8));
  s.count = chance(16) ? UINT64_MAX : 1u << below(20);
  s.datatype = static_cast<abi::Datatype>(below(10));
  s.root = rank_or_none();
  s.algorithm = static_cast<abi::Algorithm>(below(4));
  s.protocol = static_cast<abi::Protocol>(below(4));
  s.channels = static_cast<uint16_t>(below(4));
  s.flags = static_cast<uint8_t>(chance(8) ? below(256) : 0);
  return s;
}

CommUp Stranger::comm_up() {
  CommUp m;
  m.comm = comm();
  m.rank_count = chance(4) ? 300 : 2 + below(5);
  m.rank = Rank{below(m.rank_count)};
  m.node = below(m.rank_count);
  m.node_count = m.rank_count;
  m.cuda_device = below(3) - 1;
  m.name = chance(4) ? name() : "";
  m.host = chance(4) ? name() : "host";
  m.parent = chance(4) ? comm() : CommUid{0};
  m.hidden = chance(8) ? static_cast<uint32_t>(below(4)) : 0;
  const auto other = [&] { return below(m.rank_count + 1) - 1; };
  for (int c = 0; c < below(3); ++c) m.channels.push_back({c, other(), other(), other(), {other()}, other()});
  for (int c = 0; c < below(3); ++c) m.connections.push_back({c, direction(), other(), 0, name()});
  return m;
}

CommDown Stranger::comm_down() {
  CommDown m;
  m.comm = comm(), m.rank = Rank{rank()};
  m.state = static_cast<abi::CommState>(below(6));
  m.last_entered = op();
  return m;
}

CommInit Stranger::initialization() {
  CommInit m;
  m.comm_hash = static_cast<uint64_t>(1 + below(3));
  m.rank_count = 2 + below(300);
  m.rank = Rank{below(m.rank_count)};
  m.stage = static_cast<abi::InitStage>(below(5));
  m.stage_age_ms = chance(4) ? UINT32_MAX : age_ms();
  m.enter_age_ms = chance(4) ? UINT32_MAX : age_ms();
  m.result = below(3);
  m.number = static_cast<uint64_t>(below(4));
  return m;
}

InFlightOp Stranger::operation_in_flight() {
  InFlightOp o;
  o.op = op();
  o.signature = signature();
  o.plan = static_cast<uint32_t>(below(3));
  o.launched = chance(2), o.begun = chance(2);
  o.enter_age_ms = age_ms(), o.launch_age_ms = chance(8) ? age_never : age_ms();
  o.replay = replay();
  o.signals = static_cast<uint8_t>(below(8));
  for (int c = below(3); c > 0; --c) {
    ChannelState s;
    s.channel = static_cast<uint16_t>(below(abi::channels_max));
    s.token = static_cast<uint32_t>(below(3));
    s.begun = chance(2), s.ended = chance(2);
    s.running_age_ms = age_ms(), s.polling_age_ms = chance(2) ? age_never : age_ms();
    s.send_steps = random(), s.recv_steps = random();
    o.channels.push_back(s);
  }
  return o;
}

P2pCall Stranger::call_in_flight() {
  P2pCall c;
  c.call = op().value, c.pair_seq = op().value;
  c.bytes = 1u << below(20);
  c.peer = Rank{rank()};
  c.plan = static_cast<uint32_t>(below(3));
  c.enter_age_ms = age_ms(), c.launch_age_ms = age_ms();
  c.direction = direction();
  c.launched = chance(2), c.begun = chance(2);
  c.replay = replay();
  c.flags = static_cast<uint8_t>(chance(8) ? below(256) : 0);
  c.signals = static_cast<uint8_t>(below(8));
  return c;
}

InFlight Stranger::snapshot(Nanoseconds now_ns) {
  InFlight m;
  m.comm = comm();
  m.rank = Rank{rank()};
  m.sample_monotonic_ns = chance(8) ? time_ns(now_ns) : static_cast<uint64_t>(now_ns);
  m.entered = op(), m.launched = op(), m.completed = OpSeq{op().value - 1};
  m.movement = random();
  m.moved_age_ms = age_ms();
  m.late = chance(2);
  m.stopped = chance(16);
  m.state = static_cast<abi::CommState>(chance(8) ? below(6) : 0);
  for (int i = below(3); i > 0; --i) m.operations.push_back(operation_in_flight());
  m.operations_total = static_cast<uint32_t>(m.operations.size());
  for (int i = below(5); i > 0; --i) {
    LaneState l;
    l.token = static_cast<uint32_t>(below(3));
    l.current_step = random(), l.base_step = random(), l.want_step = random(), l.seen_step = random();
    l.peer = rank_or_none();
    l.moved_age_ms = l.poll_age_ms = l.wait_age_ms = age_ms();
    l.channel = static_cast<uint16_t>(below(abi::channels_max));
    l.direction = direction();
    l.group = static_cast<uint8_t>(below(2));
    l.wait = static_cast<abi::WaitKind>(below(3));
    l.wait_certain = chance(2);
    m.lanes.push_back(l);
    ProxyState p;
    p.peer = rank_or_none();
    p.net_device = below(3) - 1;
    p.channel = l.channel;
    p.direction = l.direction;
    p.base = random(), p.posted = random(), p.received = random(), p.transmitted = random(), p.done = random();
    p.step_count = random();
    p.operation = op().value;
    p.tick_age_ms = age_ms(), p.moved_age_ms = age_ms();
    m.proxies.push_back(p);
  }
  m.proxy_tick_age_ms = chance(2) ? age_never : age_ms();
  for (int i = below(3); i > 0; --i) m.p2p.push_back(call_in_flight());
  m.p2p_total = static_cast<uint32_t>(m.p2p.size());
  m.entered_p2p = op().value, m.launched_p2p = op().value;
  m.kernel_plan = static_cast<uint32_t>(below(3)), m.kernel_replay = replay();
  return m;
}

LinkStages Stranger::link(OpSeq op, Nanoseconds now_ns) {
  LinkStages l;
  l.op = op;
  l.peer = rank_or_none();
  l.net_device = below(3) - 1;
  l.steps = static_cast<uint32_t>(chance(8) ? random() : below(9));
  l.gpu_mean_realtime_ns = static_cast<int64_t>(time_ns(now_ns));
  l.ready_mean_realtime_ns = l.gpu_mean_realtime_ns + below(1'000'000);
  l.wire_mean_realtime_ns =
      chance(8) ? static_cast<int64_t>(time_ns(now_ns)) : l.ready_mean_realtime_ns + below(1'000'000);
  l.done_mean_realtime_ns = l.wire_mean_realtime_ns + below(1'000'000) - 1000;
  l.proxy_away_us = chance(4) ? random() : 0;
  l.channel = static_cast<uint16_t>(below(3));
  l.direction = direction();
  l.first_step = static_cast<uint32_t>(below(9));
  return l;
}

Rounds Stranger::finished(Nanoseconds now_ns) {
  Rounds m;
  m.comm = comm();
  m.rank = Rank{rank()};
  for (int i = below(4); i > 0; --i) {
    Round r;
    r.op = op();
    r.signature = signature();
    r.enter_monotonic_ns = time_ns(now_ns),
    r.launch_monotonic_ns = r.enter_monotonic_ns + static_cast<uint64_t>(below(1'000'000));
    r.begin_device_ns = time_ns(now_ns);
    r.end_device_ns = chance(8) ? time_ns(now_ns) : r.begin_device_ns + static_cast<uint64_t>(below(100'000'000));
    r.send_steps = random(), r.recv_steps = random();
    r.send_changes = random(), r.recv_changes = random();
    r.samples = static_cast<uint32_t>(below(9));
    r.flags = static_cast<uint8_t>(chance(4) ? below(64) : 0);
    r.replay = replay();
    r.signals = static_cast<uint8_t>(chance(8) ? below(16) : signals_default);
    m.rounds.push_back(r);
    if (chance(2)) m.links.push_back(link(r.op, now_ns));
  }
  return m;
}

P2pRounds Stranger::transfers(Nanoseconds now_ns) {
  P2pRounds m;
  m.comm = comm();
  m.rank = Rank{rank()};
  for (int i = below(4); i > 0; --i) {
    P2pRound r;
    r.peer = Rank{rank()};
    r.direction = direction();
    r.pair_seq = op().value;
    r.bytes = 1u << below(20);
    r.enter_monotonic_ns = time_ns(now_ns), r.launch_monotonic_ns = time_ns(now_ns);
    r.begin_device_ns = time_ns(now_ns), r.end_device_ns = r.begin_device_ns + random();
    r.flags = static_cast<uint8_t>(chance(4) ? below(64) : 0);
    r.replay = replay();
    r.plan = static_cast<uint32_t>(below(3));
    r.send_steps = random(), r.recv_steps = random();
    m.rounds.push_back(r);
    if (chance(2)) m.links.push_back(link(OpSeq{r.pair_seq}, now_ns));
  }
  return m;
}

AgentHealth Stranger::health() {
  AgentHealth m;
  m.samples = random(), m.dropped_batches = random(), m.cpu_ns = random();
  for (int i = below(3); i > 0; --i) {
    Sibling s;
    s.pid = static_cast<uint32_t>(1 + below(6)), s.pid_start_ticks = chance(2) ? 0 : s.pid,
    s.state = "RSTXZt?"[below(7)];
    s.state_age_ms = age_ms();
    s.last_operations.push_back({comm(), Rank{rank()}, op(), op(), op()});
    m.siblings.push_back(s);
  }
  return m;
}

Metrics Stranger::metrics() {
  Metrics m;
  for (int i = below(6); i > 0; --i) {
    Metric metric;
    metric.id = static_cast<abi::MetricId>(below(160));
    metric.instance = chance(2) ? "" : name();
    metric.value = chance(8) ? INT64_MIN : chance(8) ? INT64_MAX : static_cast<int64_t>(random());
    m.metrics.push_back(metric);
  }
  return m;
}

NetQueues Stranger::queues() {
  NetQueues m;
  for (int i = below(4); i > 0; --i) {
    NetQueue q;
    q.queue = static_cast<uint64_t>(below(4));
    q.in_flight = random(), q.send_posted = random(), q.send_completed = random(), q.recv_in_flight = random();
    q.window_bytes = random(), q.errors = static_cast<uint64_t>(below(3));
    q.device = below(3) - 1;
    q.window_ms = age_ms(), q.post_age_ms = chance(2) ? age_never : age_ms(),
    q.complete_age_ms = chance(2) ? age_never : age_ms();
    q.kind = static_cast<abi::NetKind>(below(2));
    q.device_name = name();
    m.queues.push_back(q);
  }
  return m;
}

ControlState Stranger::control() {
  ControlState m;
  m.sequence = static_cast<uint64_t>(below(3));
  m.refused_fields = static_cast<uint32_t>(below(64));
  m.running = chance(2);
  m.sample_us = 1000, m.log = static_cast<uint32_t>(below(3)), m.period_us = 1000;
  m.endpoint = chance(2) ? "" : name();
  return m;
}

Payload Stranger::payload(Nanoseconds now_ns) {
  switch (below(16)) {
    case 0:
    case 1: return comm_up();
    case 2:
    case 3:
    case 4: return finished(now_ns);
    case 5: return transfers(now_ns);
    case 6: return health();
    case 7: return chance(4) ? Payload{comm_down()} : Payload{snapshot(now_ns)};
    case 8: return initialization();
    case 9: return metrics();
    case 10: return queues();
    case 11: return control();
    default: return snapshot(now_ns);
  }
}

}  // namespace ccld::fake
