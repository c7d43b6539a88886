// Telemetry that nobody honest sends: contradictions, numbers of other communicators, sizes that nobody has. The
// service goes on, within its memory, and judges the others.
#include <catch2/catch.hpp>

#include <malloc.h>

#include <random>

#include "decision/analyzer.h"

namespace ccld::decision {
namespace {

constexpr int huge_ranks = 1 << 18;

Batch batch_of(uint32_t pid, Nanoseconds now_ns) {
  Batch b;
  b.process = {"host", "boot", pid, 0, pid};
  b.job = "job";
  b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
  return b;
}

CommUp up(uint64_t comm, int rank, int rank_count) {
  CommUp m;
  m.comm = CommUid{comm};
  m.rank = Rank{rank};
  m.rank_count = rank_count;
  return m;
}

InFlight in_flight(uint64_t comm, int rank, uint64_t op, Nanoseconds now_ns) {
  InFlight m;
  m.comm = CommUid{comm};
  m.rank = Rank{rank};
  m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
  m.entered = m.launched = OpSeq{op};
  InFlightOp o;
  o.op = OpSeq{op};
  o.signature.function = abi::Function::all_reduce;
  o.launched = o.begun = true;
  o.signals = signals_default;
  m.operations = {o};
  m.operations_total = 1;
  return m;
}

Rounds rounds(uint64_t comm, int rank, uint64_t op, uint32_t replay) {
  Rounds m;
  m.comm = CommUid{comm};
  m.rank = Rank{rank};
  Round r;
  r.op = OpSeq{op};
  r.replay = replay;
  r.signature.function = abi::Function::all_reduce;
  r.begin_device_ns = op * 1000;
  r.end_device_ns = op * 1000 + 500;
  m.rounds = {r};
  return m;
}

uint64_t heap_bytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

// Any payload, well formed for a decoder that knows no other message: small numbers, so that they meet.
class Stranger {
 public:
  explicit Stranger(uint32_t seed) : random_(seed) {}

  Batch batch(Nanoseconds now_ns) {
    Batch b = batch_of(1 + below(6), now_ns);
    for (int n = 1 + below(6); n > 0; --n) b.payloads.push_back(payload(now_ns));
    return b;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  CommUid comm() { return CommUid{1 + static_cast<uint64_t>(below(3))}; }
  int rank() { return below(8) == 0 ? below(300) : below(6); }
  int rank_or_none() { return rank() - 1; }
  OpSeq op() { return OpSeq{1 + static_cast<uint64_t>(below(12))}; }
  Signature signature() {
    Signature s;
    s.function = static_cast<abi::Function>(below(8));
    s.count = 1u << below(20);
    s.datatype = static_cast<abi::Datatype>(below(10));
    s.root = rank_or_none();
    s.algorithm = static_cast<abi::Algorithm>(below(4));
    s.protocol = static_cast<abi::Protocol>(below(4));
    s.channels = static_cast<uint16_t>(below(4));
    s.flags = static_cast<uint8_t>(below(8) == 0 ? below(256) : 0);
    return s;
  }
  abi::Direction direction() { return below(2) == 0 ? abi::Direction::send : abi::Direction::recv; }

  CommUp comm_up() {
    CommUp m;
    m.comm = comm();
    m.rank_count = below(4) == 0 ? 300 : 2 + below(5);
    m.rank = Rank{below(m.rank_count)};
    m.node = below(m.rank_count);
    m.node_count = m.rank_count;
    const auto other = [&] { return below(m.rank_count + 1) - 1; };
    for (int c = 0; c < below(3); ++c) m.channels.push_back({c, other(), other(), other(), {other()}, other()});
    for (int c = 0; c < below(3); ++c) m.connections.push_back({c, direction(), other(), 0, "net"});
    return m;
  }
  InFlight snapshot(Nanoseconds now_ns) {
    InFlight m;
    m.comm = comm();
    m.rank = Rank{rank()};
    m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
    m.entered = op(), m.launched = op(), m.completed = OpSeq{op().value - 1};
    m.movement = random_();
    m.moved_age_ms = static_cast<uint32_t>(below(30'000));
    m.late = below(2) == 0;
    m.stopped = below(16) == 0;
    m.state = static_cast<abi::CommState>(below(8) == 0 ? below(6) : 0);
    for (int i = below(3); i > 0; --i) {
      InFlightOp o;
      o.op = op();
      o.signature = signature();
      o.plan = static_cast<uint32_t>(below(3));
      o.launched = below(2) == 0, o.begun = below(2) == 0;
      o.replay = static_cast<uint32_t>(below(4) == 0 ? below(3) : 0);
      o.signals = static_cast<uint8_t>(below(8));
      for (int c = below(3); c > 0; --c) {
        ChannelState s;
        s.channel = static_cast<uint16_t>(below(abi::channels_max));
        s.begun = below(2) == 0, s.ended = below(2) == 0;
        o.channels.push_back(s);
      }
      m.operations.push_back(o);
    }
    m.operations_total = static_cast<uint32_t>(m.operations.size());
    for (int i = below(5); i > 0; --i) {
      LaneState l;
      l.token = static_cast<uint32_t>(below(3));
      l.current_step = random_(), l.base_step = random_(), l.want_step = random_();
      l.peer = rank_or_none();
      l.moved_age_ms = static_cast<uint32_t>(below(30'000));
      l.channel = static_cast<uint16_t>(below(abi::channels_max));
      l.direction = direction();
      l.group = static_cast<uint8_t>(below(2));
      l.wait = static_cast<abi::WaitKind>(below(3));
      m.lanes.push_back(l);
      ProxyState p;
      p.peer = rank_or_none();
      p.channel = l.channel;
      p.direction = l.direction;
      p.posted = random_(), p.done = random_();
      m.proxies.push_back(p);
    }
    for (int i = below(3); i > 0; --i) {
      P2pCall c;
      c.call = op().value, c.pair_seq = op().value;
      c.bytes = 1u << below(20);
      c.peer = Rank{rank()};
      c.direction = direction();
      c.launched = below(2) == 0, c.begun = below(2) == 0;
      c.replay = static_cast<uint32_t>(below(4) == 0 ? below(3) : 0);
      m.p2p.push_back(c);
    }
    m.p2p_total = static_cast<uint32_t>(m.p2p.size());
    m.entered_p2p = op().value, m.launched_p2p = op().value;
    return m;
  }
  Rounds finished() {
    Rounds m;
    m.comm = comm();
    m.rank = Rank{rank()};
    for (int i = below(4); i > 0; --i) {
      Round r;
      r.op = op();
      r.signature = signature();
      r.begin_device_ns = random_(), r.end_device_ns = random_();
      r.flags = static_cast<uint8_t>(below(4) == 0 ? below(64) : 0);
      r.replay = static_cast<uint32_t>(below(4) == 0 ? below(3) : 0);
      m.rounds.push_back(r);
      LinkStages l;
      l.op = r.op;
      l.peer = rank_or_none();
      l.steps = static_cast<uint32_t>(below(9));
      l.gpu_mean_realtime_ns = random_();
      l.direction = direction();
      m.links.push_back(l);
    }
    return m;
  }
  P2pRounds transfers() {
    P2pRounds m;
    m.comm = comm();
    m.rank = Rank{rank()};
    for (int i = below(4); i > 0; --i) {
      P2pRound r;
      r.peer = Rank{rank()};
      r.direction = direction();
      r.pair_seq = op().value;
      r.bytes = 1u << below(20);
      r.begin_device_ns = random_(), r.end_device_ns = r.begin_device_ns + random_();
      m.rounds.push_back(r);
    }
    return m;
  }
  AgentHealth health() {
    AgentHealth m;
    Sibling s;
    s.pid = 1 + below(6), s.pid_start_ticks = 0, s.state = "RSTXZ"[below(5)];
    s.last_operations.push_back({comm(), Rank{rank()}, op(), op(), op()});
    m.siblings.push_back(s);
    return m;
  }
  Payload payload(Nanoseconds now_ns) {
    switch (below(8)) {
      case 0: return comm_up();
      case 1: return finished();
      case 2: return transfers();
      case 3: return health();
      case 4: {
        CommDown m;
        m.comm = comm(), m.rank = Rank{rank()};
        return below(8) == 0 ? Payload{m} : Payload{snapshot(now_ns)};
      }
      case 5: {
        CommInit m;
        m.comm_hash = 1 + below(3), m.rank_count = 2 + below(300), m.rank = Rank{below(m.rank_count)};
        m.stage = static_cast<abi::InitStage>(below(5));
        return m;
      }
      default: return snapshot(now_ns);
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("A rank beyond the size that its communicator turns out to have is forgotten") {
  Settings settings;
  Analyzer a(settings);
  Batch b = batch_of(1, ns_per_s);
  b.payloads = {in_flight(1, 40, 1, ns_per_s), up(1, 0, 2)};
  a.apply(b, ns_per_s);
  Batch other = batch_of(2, ns_per_s);
  other.payloads = {up(1, 1, 2), in_flight(1, 1, 1, ns_per_s)};
  a.apply(other, ns_per_s);
  for (Nanoseconds now = 2 * ns_per_s; now < 20 * ns_per_s; now += ns_per_s) a.advance(now);
  const StatusView status = a.status(20 * ns_per_s);
  REQUIRE(status.communicators.size() == 1);
  CHECK(status.communicators[0].rank_count == 2);
  CHECK(status.communicators[0].ranks_seen == 2);
  CHECK(status.contradictions == 1);
}

TEST_CASE("A communicator that is contradicted within a batch of Send and Recv is not used any more") {
  Analyzer a{Settings{}};
  Batch b = batch_of(1, ns_per_s);
  P2pRounds pairs;
  pairs.comm = CommUid{1}, pairs.rank = Rank{40};
  pairs.rounds.resize(1);
  b.payloads = {pairs, up(1, 0, 2)};
  a.apply(b, ns_per_s);
  CHECK(a.status(ns_per_s).contradictions == 1);
}

TEST_CASE("Claims of huge communicators cost what was said, not what was claimed") {
  Analyzer a{Settings{}};
  const uint64_t before = heap_bytes();
  constexpr int claims = 25;
  for (uint32_t c = 1; c <= claims; ++c) {
    Batch b = batch_of(c, ns_per_s);
    b.payloads = {up(c, huge_ranks - 1, huge_ranks), in_flight(c, huge_ranks - 1, 9, ns_per_s),
                  rounds(c, huge_ranks - 1, 7, 0), rounds(c, huge_ranks - 1, 8, 0), rounds(c, huge_ranks - 1, 9, 1)};
    a.apply(b, ns_per_s);
  }
  const uint64_t after = heap_bytes();
  CHECK(a.status(ns_per_s).communicators.size() == claims);
  if (before != 0) CHECK((after - before) / claims < 200'000);  // a sanitizer's heap is not counted
}

TEST_CASE("Ranks beyond the room for them are refused and counted, and what is known goes on") {
  Settings settings;
  settings.memberships_max = 128;
  Analyzer a(settings);
  for (uint32_t c = 1; c <= 5; ++c) {
    Batch b = batch_of(c, ns_per_s);
    b.payloads = {up(c, 0, 60), in_flight(c, 0, 1, ns_per_s)};
    a.apply(b, ns_per_s);
  }
  const StatusView status = a.status(ns_per_s);
  int known = 0;
  for (const CommStatus& c : status.communicators) known += c.ranks_seen;
  CHECK(known == 2);
  CHECK(status.ranks_refused > 0);
}

TEST_CASE("Stages that were reported by ranks which their communicator turns out not to have are left out") {
  constexpr int far = huge_ranks - 2;  // and far + 1
  Analyzer a{Settings{}};
  Nanoseconds now = ns_per_s;
  const auto send = [&](uint32_t pid, std::vector<Payload> payloads) {
    Batch b = batch_of(pid, now);
    b.payloads = std::move(payloads);
    a.apply(b, now);
  };
  const auto round_at = [&](uint64_t comm, int rank, uint64_t op) {
    Rounds m = rounds(comm, rank, op, 0);
    m.rounds[0].begin_device_ns = static_cast<uint64_t>(now) + op % 2;
    m.rounds[0].end_device_ns = static_cast<uint64_t>(now) + 50'000'000;
    return m;
  };
  // Two processes that another communicator knows speak as ranks far beyond those of communicator 1.
  for (int r = 0; r < 2; ++r) {
    CommUp known = up(2, r, 2);
    known.cuda_device = -1;  // as of a communicator that was not announced: the same GPU
    send(1 + static_cast<uint32_t>(r), {known, round_at(2, r, 1)});
  }
  for (uint64_t op = 1; op <= 40; ++op) {
    now += 100 * ns_per_ms;
    for (int r = 0; r < 2; ++r) {
      Rounds m = round_at(1, far + r, op);
      for (const abi::Direction direction : {abi::Direction::send, abi::Direction::recv}) {
        LinkStages l;
        l.op = OpSeq{op};
        l.peer = far + 1 - r;
        l.net_device = 0;
        l.steps = 8;
        l.gpu_mean_realtime_ns = l.ready_mean_realtime_ns = l.wire_mean_realtime_ns = l.done_mean_realtime_ns = now;
        l.direction = direction;
        m.links.push_back(l);
      }
      send(1 + static_cast<uint32_t>(r), {m});
    }
    send(3, {round_at(1, 0, op)});
  }
  send(3, {up(1, 0, 2)});
  for (int i = 0; i < 100; ++i) a.advance(now += 100 * ns_per_ms);
  CHECK(a.status(now).contradictions == 1);
  CHECK(a.incidents().empty());
}

TEST_CASE("Whatever a stranger says, the analysis survives it") {
  const int seeds = 300;
  for (int seed = 1; seed <= seeds; ++seed) {
    Settings settings;
    settings.hang_suspect_s = 0.5;
    settings.slow_window_s = 1;
    settings.communicators_max = 2 + static_cast<uint64_t>(seed % 3);
    settings.memberships_max = seed % 2 == 0 ? 512 : 1 << 20;
    if (seed % 5 == 0) settings.rules = RuleSet::paper;
    Analyzer a(settings);
    Stranger stranger(static_cast<uint32_t>(seed));
    Nanoseconds now = ns_per_s;
    for (int i = 0; i < 120; ++i) {
      now += 70 * ns_per_ms;
      a.apply(stranger.batch(now), now);
      if (i % 3 == 0) a.advance(now);
    }
    a.advance(now + 10 * ns_per_s);
    a.status(now);
  }
}

}  // namespace ccld::decision
