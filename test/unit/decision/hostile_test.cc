// Telemetry that nobody honest sends: contradictions, numbers of other communicators, sizes that nobody has. The
// service goes on, within its memory, and judges the others.
#include <catch2/catch.hpp>

#include <malloc.h>

#include "absl/strings/str_cat.h"
#include "decision/analyzer.h"
#include "decision/model/communicator.h"
#include "test/support/telemetry/stranger.h"
#include "test/unit/decision/messages.h"

namespace ccld::decision {
namespace {

constexpr int huge_ranks = 1 << 18;

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

}  // namespace

TEST_CASE("A rank beyond the size that its communicator turns out to have is forgotten") {
  Settings settings;
  Analyzer a(settings);
  Batch b = batch_of("host", 1, ns_per_s, {});
  b.payloads = {in_flight(1, 40, 1, ns_per_s), up(1, 0, 2)};
  a.apply(b, ns_per_s);
  Batch other = batch_of("host", 2, ns_per_s, {});
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
  Batch b = batch_of("host", 1, ns_per_s, {});
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
    Batch b = batch_of("host", c, ns_per_s, {});
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
    Batch b = batch_of("host", c, ns_per_s, {});
    b.payloads = {up(c, 0, 60), in_flight(c, 0, 1, ns_per_s)};
    a.apply(b, ns_per_s);
  }
  const StatusView status = a.status(ns_per_s);
  int known = 0;
  for (const CommStatus& c : status.communicators) known += c.ranks_seen;
  CHECK(known == 2);
  CHECK(status.ranks_refused > 0);
}

TEST_CASE("Who announces a rank with ever new names fills no memory with them, and its neighbour keeps its own") {
  constexpr int announcements = 1000, connections = 64, connections_most = 4096;
  const Settings settings;
  RankBudget budget(settings.memberships_max);
  Communicator comm(CommUid{1}, settings, &budget);
  ProcessTable processes(settings);
  ProcessModel& liar = *processes.heard(batch_of("host", 1, ns_per_s, {}), ns_per_s);
  ProcessModel& honest = *processes.heard(batch_of("node7", 2, ns_per_s, {}), ns_per_s);
  const auto announce = [&](int i, int of) {
    CommUp m = up(1, 0, 2);
    m.host = absl::StrCat("host ", i);
    m.gpu_bus_id = absl::StrCat("bus ", i);
    for (int c = 0; c < of; ++c)
      m.connections.push_back({0, abi::Direction::send, 1, c, absl::StrCat("device ", i, " ", c)});
    comm.up(m, liar, ns_per_s);
  };
  announce(0, connections_most);
  const size_t filled = comm.names();
  CHECK(filled == names_per_rank_max);
  for (int i = 1; i < announcements; ++i) announce(i, connections);
  CHECK(comm.names() == filled);
  CHECK(budget.names_refused() == announcements);
  const RankModel& rank = *comm.rank(Rank{0});
  CHECK(rank.host.str() == "(too many names)");
  CHECK(rank.connections.size() == connections);
  CHECK(rank.connections[connections - 1].net_name == "(too many names)");

  CommUp own = up(1, 1, 2);
  own.gpu_bus_id = "0000:10:00.0";
  own.connections.push_back({0, abi::Direction::send, 0, 0, "mlx5_0"});
  for (int i = 0; i < announcements; ++i) comm.up(own, honest, ns_per_s);
  const RankModel& neighbour = *comm.rank(Rank{1});
  CHECK(neighbour.host.str() == "node7");
  CHECK(neighbour.gpu_bus_id.str() == "0000:10:00.0");
  CHECK(neighbour.connections[0].net_name == "mlx5_0");
  CHECK(comm.names() == filled + 3);
  CHECK(budget.names_refused() == announcements);
}

TEST_CASE("Names that were refused are counted where an operator looks") {
  Analyzer a{Settings{}};
  for (int i = 0; i < 2 * names_per_rank_max; ++i) {
    Batch b = batch_of("host", 1, ns_per_s, {});
    CommUp m = up(1, 0, 2);
    m.gpu_bus_id = absl::StrCat("bus ", i);
    b.payloads = {m};
    a.apply(b, ns_per_s);
  }
  CHECK(a.status(ns_per_s).names_refused == names_per_rank_max + 1);  // one name is the host's
}

TEST_CASE("Stages that were reported by ranks which their communicator turns out not to have are left out") {
  constexpr int far = huge_ranks - 2;  // and far + 1
  Analyzer a{Settings{}};
  Nanoseconds now = ns_per_s;
  const auto send = [&](uint32_t pid, std::vector<Payload> payloads) {
    Batch b = batch_of("host", pid, now, {});
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
    fake::SeededNumbers numbers(static_cast<uint32_t>(seed));
    fake::Stranger stranger(numbers);
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
